import torch
from transformers import GPT2Config, GPT2LMHeadModel

config = GPT2Config(vocab_size=128, n_positions=64, n_embd=64, n_layer=2, n_head=2, bos_token_id=0, eos_token_id=0)
model = GPT2LMHeadModel(config).to("cuda:1")
tokens = torch.randint(0, 128, (2, 16), device="cuda:1")
model(input_ids=tokens, labels=tokens).loss.backward()
with torch.no_grad():
    print(model.eval().generate(tokens, max_new_tokens=8, do_sample=False, pad_token_id=0).shape)
