from gmb_hf.protocol.answers.files import read_answers as read_answers
from gmb_hf.protocol.answers.judges import Asking as Asking
from gmb_hf.protocol.answers.judges import ScoreCache as ScoreCache
from gmb_hf.protocol.answers.judges import load_judge as load_judge
from gmb_hf.protocol.answers.judges import rate as rate
from gmb_hf.protocol.answers.models import find_model as find_model
