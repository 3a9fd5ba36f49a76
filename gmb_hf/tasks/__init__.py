"""What the models learn: modular arithmetic and formal languages, as arrays, datasets and shards.

>>> from gmb_hf.tasks import get_task
>>> task = get_task("sub_p29")
>>> train, test = task.split(fraction=0.6, data_seed=17)
>>> len(train), len(test)
(504, 337)
"""

from gmb_hf.tasks.formal import LANGUAGES, FormalTask
from gmb_hf.tasks.modular import COMMUTATIVE, ModularTask
from gmb_hf.tasks.registry import get_task, task_names
from gmb_hf.tasks.shards import export_shards, read_shard, write_shard
from gmb_hf.tasks.splits import corrupt, split_indices, split_pairs, train_rows
from gmb_hf.tasks.task import IGNORED, Task, TaskData
from gmb_hf.tasks.vocabulary import (
    FORMAL_VOCABULARY,
    OPERATIONS,
    Vocabulary,
    modular_vocabulary,
)

__all__ = [
    "COMMUTATIVE",
    "FORMAL_VOCABULARY",
    "IGNORED",
    "LANGUAGES",
    "OPERATIONS",
    "FormalTask",
    "ModularTask",
    "Task",
    "TaskData",
    "Vocabulary",
    "corrupt",
    "export_shards",
    "get_task",
    "modular_vocabulary",
    "read_shard",
    "split_indices",
    "split_pairs",
    "task_names",
    "train_rows",
    "write_shard",
]
