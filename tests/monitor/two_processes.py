"""One of several processes that train together under watch; `test_together` launches them.

Its arguments: JUDGED COLUMN OUT.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import torch
from transformers import GPT2Config, GPT2LMHeadModel, Trainer, TrainingArguments, set_seed

from gmb_hf.monitor.callback import GMBCallback
from gmb_hf.monitor.observe import Parts

judged, column, out = map(Path, sys.argv[1:])
values = json.loads(column.read_text())
rows = [{"input_ids": [i, i + 1], "labels": [-100, i + 1]} for i in range(6)]
callback = GMBCallback(
    judged / "lock.yaml",
    judged / "results.yaml",
    action="stop",
    act=["embedding_gini_gain"],
    parts=Parts(residues=5),
    system="as locked",
    extra=lambda model, step: {"embedding_gini": values[str(step)]},
)
set_seed(0)
trainer = Trainer(
    GPT2LMHeadModel(GPT2Config(vocab_size=8, n_embd=4, n_layer=1, n_head=1, n_positions=4)),
    TrainingArguments(
        output_dir=str(out),
        max_steps=10_000,
        per_device_train_batch_size=2,
        save_strategy="no",
        logging_strategy="no",
        report_to=[],
        use_cpu=True,
        disable_tqdm=True,
    ),
    lambda some: {key: torch.tensor([row[key] for row in some]) for key in rows[0]},
    rows,
    callbacks=[callback],
)
trainer.train()
(out / f"ended-{trainer.args.process_index}").write_text(str(trainer.state.global_step))
# Left to the interpreter's end, one process may still speak when the other is gone.
torch.distributed.barrier()
torch.distributed.destroy_process_group()
