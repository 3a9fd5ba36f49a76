"""The page of this metric's Space: paste or upload runs, see the result and a figure."""

from pathlib import Path

from gmb_hf.hub.apps.series import series_app

demo = series_app(Path(__file__).with_name("gmb_operationality.py"))

if __name__ == "__main__":
    demo.launch()
