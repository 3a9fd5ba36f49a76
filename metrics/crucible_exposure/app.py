"""The page of this measurement's Space: paste or upload data, see the result and a figure."""

from pathlib import Path

from gmb_hf.hub.apps.items import exposure_app

demo = exposure_app(Path(__file__).with_name("crucible_exposure.py"))

if __name__ == "__main__":
    demo.launch()
