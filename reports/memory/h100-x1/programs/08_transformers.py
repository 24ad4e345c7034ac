"""transformers: a model of GPT-2's kind with random weights generates."""
import os

os.environ.update(HF_HUB_OFFLINE="1", TRANSFORMERS_OFFLINE="1", TOKENIZERS_PARALLELISM="false")
import torch
from common import deadline, rounds, say_torch
from transformers import GPT2Config, GPT2LMHeadModel

deadline(70)
config = GPT2Config(vocab_size=8000, n_positions=512, n_embd=768, n_layer=8, n_head=12, bos_token_id=0, eos_token_id=1)
model = GPT2LMHeadModel(config).to("cuda").eval()
tokens = torch.randint(2, 8000, (16, 64), device="cuda")
with torch.no_grad():
    for number in rounds(3.0, at_least=1):
        new = model.generate(tokens, attention_mask=torch.ones_like(tokens), max_new_tokens=96, do_sample=False, pad_token_id=1)
print(number + 1, "generations of", tuple(new.shape))
say_torch()
