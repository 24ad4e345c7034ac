import tempfile
import torch
from transformers import GPT2Config, GPT2LMHeadModel, Trainer, TrainingArguments

config = GPT2Config(vocab_size=64, n_positions=32, n_embd=32, n_layer=1, n_head=2, bos_token_id=0, eos_token_id=0)
tokens = [{"input_ids": row, "labels": row} for row in torch.randint(0, 64, (16, 16))]
arguments = TrainingArguments(tempfile.mkdtemp(), max_steps=3, per_device_train_batch_size=4, report_to=[])
trainer = Trainer(GPT2LMHeadModel(config), arguments, train_dataset=tokens)
print(trainer.train().global_step, trainer.args.n_gpu)
