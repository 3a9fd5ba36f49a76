"""The page of this comparison's Space: paste or upload data, see the result and a figure."""

from pathlib import Path

from gmb_hf.hub.apps.items import items_app

demo = items_app(Path(__file__).with_name("crucible_compare.py"))

if __name__ == "__main__":
    demo.launch()
