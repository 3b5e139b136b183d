"""Texts that tokenizers get wrong: many scripts, spaces, controls, broken marks."""

import unicodedata

SENTENCES = [
    "The quick brown fox jumps over the lazy dog.", "It's what they'd've said, isn't it? I'LL SEE; WE'RE HERE.",
    "Routing tokens between a small and a large language model saves GPU time.", "Let x = 3.14159 and y = 2,718,281.",
    "El veloz murciélago hindú comía feliz cardillo y kiwi.", "Voix ambiguë d’un cœur qui, au zéphyr, préfère les jattes de kiwis.",
    "Zwölf Boxkämpfer jagen Viktor quer über den großen Sylter Deich.", "Pchnąć w tę łódź jeża lub ośm skrzyń fig.",
    "Съешь же ещё этих мягких французских булок, да выпей чаю.", "Ξεσκεπάζω την ψυχοφθόρα βδελυγμία.",
    "敏捷的棕色狐狸跳过了懒狗。", "天地玄黃，宇宙洪荒。日月盈昃，辰宿列張。", "いろはにほへと ちりぬるを。", "色は匂へど散りぬるを。カタカナもある。",
    "키스의 고유조건은 입술끼리 만나야 하고 특별한 기술은 필요치 않다.", "다람쥐 헌 쳇바퀴에 타고파.",
    "نص حكيم له سر قاطع وذو شأن عظيم مكتوب على ثوب أخضر.", "דג סקרן שט בים מאוכזב ולפתע מצא חברה.",
    "ऋषियों को सताने वाले दुष्ट राक्षसों के राजा रावण का सर्वनाश।", "เป็นมนุษย์สุดประเสริฐเลิศคุณค่า กว่าบรรดาฝูงสัตว์เดรัจฉาน",
    "Do bạch kim rất quý nên sẽ dùng để lắp vô xương.", "யாமறிந்த மொழிகளிலே தமிழ்மொழி போல்", "მხედრული ანბანი", "Հայերեն տառեր",
    "ሰማይ አይታረስ ንጉሥ አይከሰስ።", "ᠮᠣᠩᠭᠣᠯ ᠪᠢᠴᠢᠭ", "ភាសាខ្មែរ", "မြန်မာဘာသာ", "ᚠᛇᚻ᛫ᛒᛦᚦ᛫ᚠᚱᚩᚠᚢᚱ", "𐌼𐌰𐌲 𐌲𐌻𐌴𐍃 𐌹̈𐍄𐌰𐌽",
    "def route(token: int) -> int:\n    return 0 if token < 0 else 1  # stay\n", "for (int i = 0; i < n; ++i) { sum += a[i]; }",
    "func (c *Core) Step(ev Event) []Message {\n\tswitch ev.Kind {\n\tcase Arrived:\n\t\treturn c.arrive(ev)\n\t}\n}",
    '{"name": "get_weather", "arguments": {"city": "Zürich", "days": 3}}', "<html><body><p>&nbsp;</p></body></html>",
    "SELECT name, COUNT(*) FROM users WHERE age >= 21 GROUP BY name;", "$ grep -rn 'TODO' src/ | wc -l",
    "https://example.org/a/b?q=1&r=%20#frag", "user.name+tag@example.com", "\\frac{a}{b} + \\sqrt{x^2} \\le \\infty",
    "| a | b |\n|---|---|\n| 1 | 2 |", "- [x] done\n- [ ] to do\n\n## Heading ##\n", "1. first\r\n2. second\r\n\r\n3. third",
]
WORDS = (
    "the of and router tokens model small large batch cache antidisestablishmentarianism step threshold scheduler Welt ñandú "
    "mañana straße ŁÓDŹ ﬁne Ångström naïve café résumé co-operate x86_64 v1.2.3 0x7fff 3.5e-10 1,000,000 ½ ² ³ Ⅻ ٣٤٥ ७८ 四五 "
    "HTTPServer iPhone camelCase snake_case SCREAMING don't I'm she's THEY'VE you'll we'D 'S 's 'ſ o'clock rock'n'roll mask "
    "unmasked -mask- two  two"
).split(" ")
EMOJI = ["😀", "👩‍👩‍👧‍👦", "🏳️‍🌈", "🇩🇪🇫🇷", "👍🏽", "☃️", "❤️‍🔥", "🧑🏿‍🚀", "♀️", "1️⃣", "🫠", "🏴󠁧󠁢󠁥󠁮󠁧󠁿"]
SPACES = [" ", "  ", "   ", "\n", "\n\n", "\r\n", "\t", "\t\t", " \n", "\n ", " \n \n ", "\u00a0", "\u3000", "\u2003", "\u2028", "\u0085", "\u200b", "\v\f", "\r", " \t ", "\u202f", "\ufeff"]
MARKS = "!!!??? ... -- --- === ``` \"\" '' `` ( ) [] {} <> «» „“ ‚‘ … — – • · ¿¡ @#$%^&*_+ ~~ // \\\\ ::: ;; ,, -~- ~".split(" ")
CONTROLS = ["\x00", "\x01", "\x1b[0m", "\x7f", "\u0080", "\ufffd", "\ufffe", "\u200d", "\u202e", "\u2066", "\ue000", "\U000f0000"]
COMBINING = ["e\u0301", "A\u030a", "n\u0303", "\u212b", "\u1100\u1161\u11a8", "o\u0302\u0301", "q\u0307\u0323", "\u0958", "\ufb1d", "cafe\u0301", "nai\u0308ve", "\u0301", "\u0344", "ſ", "ﬀ", "ǆ", "İi̇"]
SPECIALS = [
    "<|endoftext|>", "<|im_start|>", "<|im_end|>", "<|object_ref_start|>", "<|fim_prefix|>", "<tool_call>", "</tool_call>", "<think>",
    "</think>", "<|begin_of_text|>", "<|eot_id|>", "<|start_header_id|>", "<|end_header_id|>", "<|reserved_special_token_1|>",
    "<|reserved_special_token_12|>", "<repo_name>", "<file_sep>", "<|left|>", "<|right|>", "<|both|>", "<|both|>>", "<|alone|>", "mask",
    "café", "Å", "naïve", "  two", "<|im_", "im_end|>", "<|", "|>", "<", "<<|im_end|>>", "<|im_end|><|im_start|>",
]


def character(rng):
    while True:
        c = chr(rng.randrange(0x20, rng.choice((0x250, 0x3000, 0xFFFF, 0x1FFFF))))
        # Newer characters than the oldest of the libraries knows are left out, as
        # are surrogates.
        if unicodedata.category(c) not in ("Cn", "Cs"):
            return c


def piece(rng):
    kind = rng.randrange(12)
    if kind < 3:
        return rng.choice(WORDS)
    if kind < 5:
        s = rng.choice(SENTENCES)
        a = rng.randrange(len(s))
        return s[a : a + rng.randrange(1, 25)]
    return [
        lambda: rng.choice(SPACES), lambda: rng.choice(MARKS), lambda: rng.choice(EMOJI), lambda: rng.choice(COMBINING),
        lambda: rng.choice(SPECIALS), lambda: str(rng.randrange(10 ** rng.randrange(1, 12))), lambda: rng.choice(CONTROLS),
    ][kind - 5]()


def make_texts(rng):
    texts = ["", " ", "a", "\n"] + SENTENCES + SPACES + MARKS + EMOJI + CONTROLS + COMBINING + SPECIALS + WORDS
    texts += [s.upper() for s in SENTENCES[:12]] + [" " + s for s in WORDS] + [s + " " for s in SPECIALS] + [" " + s for s in SPECIALS]
    texts += [unit * n for unit in ("a", " ", "\n", "ab", "!", "中", "9", "e\u0301", " \n", "<", "'s", "🇩🇪") for n in (2, 3, 7, 40, 130)]
    texts += [base + mark * n for base in ("a", "", "한", "é") for mark in ("\u0301", "\u0316\u0301", "\u0344", "\u0345\u0316") for n in (9, 31, 100)]
    texts += ["x" + s + "y" for s in SPACES + SPECIALS + MARKS] + ["1" + s + "2" for s in SPACES]
    texts += ["".join(character(rng) for _ in range(rng.randrange(1, 12))) for _ in range(300)]
    while len(texts) < 2200:
        glue = rng.choice(("", "", " "))
        texts.append(glue.join(piece(rng) for _ in range(rng.randrange(2, 9))))
    return texts
