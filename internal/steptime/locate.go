package steptime

import "strings"

// lineOf is the line on which a dotted key stands in a TOML text, or its table if
// the key is not found, or 0. The decoder gives no lines for keys that it decoded
// or skipped, so this walks the text; the text is known to be valid TOML.
func lineOf(text, key string) int {
	lines := keyLines(text)
	for key != "" {
		if line, ok := lines[key]; ok {
			return line
		}
		cut := max(strings.LastIndexByte(key, '.'), 0)
		key = key[:cut]
	}
	return 0
}

// keyLines maps every table header and key to its line. Keys of inline tables are
// left out: they stand on their table's line.
func keyLines(text string) map[string]int {
	lines := map[string]int{}
	section := ""
	line, counted := 1, 0
	for pos := 0; pos < len(text); {
		pos += len(text[pos:]) - len(strings.TrimLeft(text[pos:], " \t\r\n"))
		rest := text[pos:]
		line += strings.Count(text[counted:pos], "\n")
		counted = pos
		switch {
		case rest == "":
		case rest[0] == '#':
			pos += lineEnd(rest)
		case rest[0] == '[':
			section = plainKey(strings.Trim(rest[:lineEnd(rest)], "[] \t\r"))
			note(lines, section, line)
			pos += lineEnd(rest)
		default:
			equals := strings.IndexByte(rest, '=')
			if equals < 0 {
				return lines
			}
			name := plainKey(rest[:equals])
			if section != "" {
				name = section + "." + name
			}
			note(lines, name, line)
			pos += equals + 1 + valueEnd(rest[equals+1:])
		}
	}
	return lines
}

// note keeps the first line of a name.
func note(lines map[string]int, name string, line int) {
	if _, ok := lines[name]; !ok {
		lines[name] = line
	}
}

// plainKey drops quotes, blanks and a comment after a header.
func plainKey(key string) string {
	if head, _, ok := strings.Cut(key, "]"); ok {
		key = head
	}
	return strings.Map(func(r rune) rune {
		if strings.ContainsRune("\"' \t\r\n", r) {
			return -1
		}
		return r
	}, key)
}

func lineEnd(text string) int {
	if end := strings.IndexByte(text, '\n'); end >= 0 {
		return end
	}
	return len(text)
}

// valueEnd is where the value at the start of text ends: at the first line end
// outside strings and brackets.
func valueEnd(text string) int {
	depth := 0
	for pos := 0; pos < len(text); {
		switch text[pos] {
		case '\n':
			if depth <= 0 {
				return pos
			}
		case '[', '{':
			depth++
		case ']', '}':
			depth--
		case '#':
			pos += lineEnd(text[pos:])
			continue
		case '"', '\'':
			pos += stringEnd(text[pos:])
			continue
		}
		pos++
	}
	return len(text)
}

// stringEnd is the length of the quoted string that text starts with.
func stringEnd(text string) int {
	quote := text[:1]
	if strings.HasPrefix(text, strings.Repeat(quote, 3)) {
		quote = text[:3]
	}
	for pos := len(quote); pos < len(text); pos++ {
		if text[pos] == '\\' && quote[0] == '"' {
			pos++
			continue
		}
		if strings.HasPrefix(text[pos:], quote) {
			return pos + len(quote)
		}
	}
	return len(text)
}
