"""The paper's Tok-Seq with CIDEr, its best captioner, in twelve lines; around them a decoder that could be any.

python examples/tok_seq_in_twelve_lines.py
"""

import torch
from torch import nn

import seqsmooth as ss


def main() -> tuple[float, float]:
    torch.manual_seed(0)
    references = torch.tensor([[[4, 5, 6, 2], [4, 7, 6, 2]], [[8, 9, 2, 0], [8, 5, 9, 2]]])  # (images, captions, time)
    images, embeddings = torch.randn(2, 16), torch.randn(10, 8)  # GloVe in the paper
    embed, recurrence, head = nn.Embedding(10, 16), nn.GRU(16, 16, batch_first=True), nn.Linear(16, 10)
    optimizer = torch.optim.Adam([*embed.parameters(), *recurrence.parameters(), *head.parameters()], lr=0.02)

    def decode(inputs: torch.Tensor) -> torch.Tensor:
        start = images.repeat_interleave(inputs.shape[1], 0)[None]
        return head(recurrence(embed(inputs.flatten(0, 1)), start)[0]).unflatten(0, inputs.shape[:2])

    likelihoods = []
    # --- the twelve lines
    specials = ss.Specials(pad=0, bos=1, eos=2, unk=3)
    words = [[[token for token in caption if token > 2] for caption in image] for image in references.tolist()]
    cider = ss.rewards.Cider(ss.rewards.DocumentFrequencies.build(words))
    sequence = ss.Rewarded(cider, ss.Hamming(tau=0.3, pool="refs"), tau=0.5, samples=5, alpha=0.5)
    token = ss.Similarity(embeddings, tau=0.18, alpha=0.4)
    objective = ss.Objective(sequence, token, lazy=False, specials=specials)
    for _ in range(60):
        candidates = objective.propose(references[:, 0], references=references)
        loss = objective(decode(candidates.inputs), candidates)
        optimizer.zero_grad()
        loss.total.backward()
        optimizer.step()
        # --- and that is all
        likelihoods.append(float(loss.nll))
    print(objective.signature())
    print(f"negative log-likelihood of a token: {likelihoods[0]:.3f}, after 60 steps {likelihoods[-1]:.3f}")
    return likelihoods[0], likelihoods[-1]


if __name__ == "__main__":
    main()
