from gmb_hf.runs.panel import Panel as Panel
from gmb_hf.runs.runlog import RunLog as RunLog
