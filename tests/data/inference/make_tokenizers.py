"""Writes small tokenizers and what PyPI's `tokenizers` makes of odd texts with them.

    python make_tokenizers.py OUTPUT_FOLDER [SEED [CASES]]
    python make_tokenizers.py --gguf MODEL.gguf OUTPUT.json [SEED [CASES]]

NAME.json is a tokenizer.json, NAME.cases.json a list of {text, ids, decoded}. The vocabularies are
trained on the odd texts themselves without splitting, so that their merges cross every border at
which the splitting under test must cut. With --gguf: the byte-level vocabulary of that file, split
as SmolLM2 does.
"""
import json
import random
import sys
from pathlib import Path

from tokenizers import (AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers,
                        processors, trainers)

LLAMA3 = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*"
          r"|\s*[\r\n]+|\s+(?!\S)|\s+")
QWEN2 = LLAMA3.replace(r"\p{N}{1,3}", r"\p{N}")
TEKKEN = (r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+"
          r"|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*"
          r"|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+")
WORDS = ("the cat's DON'T we'll I've you'Re 'S x'ſ Once upon a time Überraschung naïve e\u0301 ÅA\u030a "
         "한국어 \u1112\u1161\u11ab 日本語 привет ΑΒΓ αβγ ǅ ʰ שלום مرحبا हिन्दी 123 4567 ١٢٣ Ⅷ ½ ² 🙂 👩‍👩‍👧 "
         "!? ... -- // /* */ <|end|> <|user|> foo_bar CamelCaseWord HTTPServer e.g. 3.14 $5 a/b").split(" ")
SPACES = [" ", " ", " ", "  ", "   ", "\n", "\n\n", "\r\n", "\t", "\u00a0", "\u3000", " \n ", "", "", "\u2028"]


def texts(seed, count):
    random.seed(seed)
    yield from ["", " ", "a", "\n", "  x", "x  ", " \n\n x", "'s", "''s", "a'", "\u0301", "a\u0301\u0323", "\x00"]
    for _ in range(count):
        yield "".join(random.choice(WORDS) + random.choice(SPACES) for _ in range(random.randint(1, 9)))


def byte_level(splitting, normalizer=None, **bpe):
    tokenizer = Tokenizer(models.BPE(**bpe))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    trainer = trainers.BpeTrainer(vocab_size=420, initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
                                  show_progress=False)
    tokenizer.train_from_iterator(texts(7, 300), trainer)
    tokenizer.pre_tokenizer = splitting
    tokenizer.decoder = decoders.ByteLevel()
    if normalizer:
        tokenizer.normalizer = normalizer
    tokenizer.add_special_tokens(["<|end|>"])
    tokenizer.add_tokens([AddedToken("<|user|>", normalized=False, lstrip=True, rstrip=True)])
    return tokenizer


def split(pattern):
    return pre_tokenizers.Sequence([pre_tokenizers.Split(Regex(pattern), "isolated"),
                                    pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])


def sentencepiece(model, trainer, scheme="always"):
    tokenizer = Tokenizer(model)
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme=scheme)
    tokenizer.train_from_iterator(texts(7, 300), trainer)
    tokenizer.decoder = decoders.Metaspace(prepend_scheme=scheme)
    tokenizer.add_special_tokens(["<|end|>"])
    return tokenizer


def with_ends(tokenizer):
    tokenizer.post_processor = processors.TemplateProcessing(
        single="<|end|> $A <|end|>", special_tokens=[("<|end|>", tokenizer.token_to_id("<|end|>"))])
    return tokenizer


def all_tokenizers():
    level = pre_tokenizers.ByteLevel(add_prefix_space=False)
    bytes_of = [f"<0x{i:02X}>" for i in range(256)]
    yield "gpt2", byte_level(pre_tokenizers.ByteLevel(add_prefix_space=True))
    yield "smollm", byte_level(pre_tokenizers.Sequence([pre_tokenizers.Digits(individual_digits=True), level]))
    yield "llama3", with_ends(byte_level(split(LLAMA3), ignore_merges=True))
    yield "qwen2", byte_level(split(QWEN2), normalizers.NFC())
    yield "tekken", byte_level(split(TEKKEN))
    yield "metaspace", sentencepiece(
        models.BPE(unk_token="<unk>", fuse_unk=True, byte_fallback=False),
        trainers.BpeTrainer(vocab_size=300, special_tokens=["<unk>"], show_progress=False), "first")
    fallback = sentencepiece(
        models.BPE(unk_token="<unk>", byte_fallback=True),
        trainers.BpeTrainer(vocab_size=420, special_tokens=["<unk>", *bytes_of], show_progress=False,
                            limit_alphabet=40), "never")
    fallback.decoder = decoders.Sequence([decoders.Replace("\u2581", " "), decoders.ByteFallback(), decoders.Fuse()])
    yield "fallback", fallback
    yield "unigram", sentencepiece(
        models.Unigram(), trainers.UnigramTrainer(vocab_size=300, unk_token="<unk>", special_tokens=["<unk>"],
                                                  show_progress=False))


def cases(tokenizer, seed, count):
    for text in texts(seed, count):
        ids = tokenizer.encode(text).ids
        yield {"text": text, "ids": ids, "decoded": tokenizer.decode(ids)}


def write(path, value):
    path.write_text(json.dumps(value, ensure_ascii=False, indent=None) + "\n")


def from_gguf(path):
    import gguf
    fields = gguf.GGUFReader(path).fields
    tokens = fields["tokenizer.ggml.tokens"].contents()
    types = fields["tokenizer.ggml.token_type"].contents()
    merges = [tuple(merge.split(" ")) for merge in fields["tokenizer.ggml.merges"].contents()]
    tokenizer = Tokenizer(models.BPE(vocab={token: i for i, token in enumerate(tokens)}, merges=merges))
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(add_prefix_space=False)])
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens([token for token, kind in zip(tokens, types) if kind == 3])
    return tokenizer


def main():
    gguf_file = sys.argv[2] if sys.argv[1] == "--gguf" else None
    output, *rest = sys.argv[3:] if gguf_file else sys.argv[1:]
    seed, count = (int(rest[0]) if rest else 1), (int(rest[1]) if len(rest) > 1 else 60)
    if gguf_file:
        return write(Path(output), list(cases(from_gguf(gguf_file), seed, count)))
    folder = Path(output)
    folder.mkdir(parents=True, exist_ok=True)
    for name, tokenizer in all_tokenizers():
        tokenizer.save(str(folder / f"{name}.json"), pretty=False)
        write(folder / f"{name}.cases.json", list(cases(tokenizer, seed, count)))


if __name__ == "__main__":
    main()
