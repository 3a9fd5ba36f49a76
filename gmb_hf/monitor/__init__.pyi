from gmb_hf.monitor.callback import GMBCallback as GMBCallback
from gmb_hf.monitor.callback import watch as watch
from gmb_hf.monitor.monitor import AlarmMonitor as AlarmMonitor
from gmb_hf.monitor.observe import Parts as Parts
from gmb_hf.monitor.reading import Reading as Reading
