package tokenizer

import (
	"fmt"
	"slices"
	"strings"
	"unicode"
)

// A template is a stranger's program, and the engine bounds neither its time nor
// its memory. So its source is written anew before it is compiled: every tag
// reports to a meter (see meter.go), which ends a rendering that does too much;
// what can make much of little within one tag goes through the meter (see
// code.go). What is not plain Jinja is refused. The reports are expressions that
// print nothing, because those are the only tags around which the engine changes
// no white space.

// Limits of sources: ten times and more what templates of known models have.
const (
	sourceMax = 256 << 10
	blocksMax = 100 // within each other
)

// rewriter writes a template anew.
type rewriter struct {
	source string
	out    strings.Builder
	blocks []string // words of the blocks that are open
	raw    int      // where the text of a raw block that is open begins, else 0
}

// metered returns source with its reports.
func metered(source string) (string, error) {
	if len(source) > sourceMax {
		return "", fmt.Errorf("it has %d bytes; at most %d are read", len(source), sourceMax)
	}
	if strings.Contains(source, meteredPrefix) || strings.Contains(source, "__filter_") {
		return "", fmt.Errorf("names with %s or __filter_ are reserved", meteredPrefix)
	}
	w := &rewriter{source: source}
	for at := 0; at < len(source); {
		open := nextTag(source, at)
		w.out.WriteString(source[at:open])
		if open == len(source) {
			break
		}
		end, ok := tagEnd(source, open)
		if !ok {
			// The compiler says where.
			w.out.WriteString(source[open:])
			break
		}
		if err := w.tag(open, end); err != nil {
			line := 1 + strings.Count(source[:open], "\n")
			return "", fmt.Errorf("line %d: %w", line, err)
		}
		at = end
	}
	return w.out.String(), nil
}

func nextTag(source string, at int) int {
	for ; at+1 < len(source); at++ {
		if source[at] == '{' && strings.IndexByte("{%#", source[at+1]) >= 0 {
			return at
		}
	}
	return len(source)
}

// tagEnd returns the byte after the tag that begins at open, as the engine
// finds it: quoted text ends no tag, except in comments.
func tagEnd(source string, open int) (end int, ok bool) {
	closer := map[byte]string{'{': "}}", '%': "%}", '#': "#}"}[source[open+1]]
	quote := byte(0)
	for i := open + 2; i < len(source); i++ {
		switch c := source[i]; {
		case quote != 0 && c == '\\':
			i++
		case quote != 0:
			if c == quote {
				quote = 0
			}
		case closer != "#}" && (c == '"' || c == '\''):
			quote = c
		case strings.HasPrefix(source[i:], closer):
			return i + 2, true
		}
	}
	return 0, false
}

// textAfter is the length of the text that a tag at whose end it stands prints
// at most, comments skipped. White space that the tags cut off does not count.
func textAfter(source string, at int) int {
	n := 0
	for {
		open := nextTag(source, at)
		text := source[at:open]
		if at >= 5 && source[at-3] == '-' && nextTag(source[:at-3], at-5) == at-3 { // not that of {{-}}
			text = strings.TrimLeft(text, " \t\r\n")
		}
		if strings.HasPrefix(source[min(open+2, len(source)):], "-") {
			text = strings.TrimRight(text, " \t\r\n")
		}
		n += len(text)
		if open == len(source) || source[open+1] != '#' {
			return n
		}
		end, ok := tagEnd(source, open)
		if !ok {
			return n
		}
		at = end
	}
}

// keyword is a statement's first word, as the engine has it.
func keyword(code string) string {
	code = strings.TrimSpace(code)
	end := strings.IndexFunc(code, func(r rune) bool { return r != '_' && !unicode.IsLetter(r) })
	if end < 0 {
		return code
	}
	return code[:end]
}

// tag writes the tag from open to end.
func (w *rewriter) tag(open, end int) error {
	tag := w.source[open:end]
	head, tail := 2, len(tag)-2
	if head < tail && tag[head] == '-' {
		head++
	}
	if tail > head && tag[tail-1] == '-' {
		tail--
	}
	within := tag[head:tail]
	if w.raw > 0 && tag[1] == '%' && keyword(within) == "endraw" {
		if strings.TrimSpace(within) != "endraw" {
			return fmt.Errorf("more behind endraw")
		}
		w.out.WriteString(tag)
		// What stood between is printed whatever the meter says, then counted.
		w.report(open - w.raw + textAfter(w.source, end))
		w.raw = 0
		return nil
	}
	if w.raw > 0 || tag[1] == '#' {
		w.out.WriteString(tag)
		return nil
	}
	tokens, err := splitCode(within)
	if err != nil {
		return err
	}
	p := &parser{tokens: tokens}
	var before, written, after string
	if tag[1] == '%' {
		before, written, after = w.statement(p, textAfter(w.source, end))
	} else {
		if len(tokens) > 0 {
			written = "(" + p.expression().text + ")|" + printName
		}
		after = report(textAfter(w.source, end))
	}
	if p.peek() != "" {
		p.failf("%s where the tag should end", p.found())
	}
	// Line ends are kept for what the compiler says about later ones.
	lines := max(strings.Count(within, "\n")-strings.Count(written, "\n"), 0)
	w.out.WriteString(before + tag[:head] + " " + written + " " + strings.Repeat("\n", lines) + tag[tail:] + after)
	if written == "raw" {
		w.raw = end
	}
	return p.err
}

// report is what tells the meter of text and of what variables hold.
func report(text int, variables ...string) string {
	return fmt.Sprintf("{{ %s(%s) }}", stepName, strings.Join(append([]string{fmt.Sprint(text)}, variables...), ", "))
}

func (w *rewriter) report(text int) { w.out.WriteString(report(text)) }

// statement reads one and returns it with what belongs before and after it. What
// it sets, and what a macro is called with, goes to the meter, which knows how
// long it is.
func (w *rewriter) statement(p *parser, text int) (before, written, after string) {
	after = report(text)
	word := p.peek()
	p.at++
	switch word {
	case "if":
		w.open(p, word)
		return "", word + " " + p.expression().text, after
	case "elif":
		return "", word + " " + p.expression().text, after
	case "else", "raw":
		if word == "raw" {
			after = "" // it would be printed
		}
	case "break", "continue":
		w.leaveRound(p, word)
	case "generation":
		w.open(p, word)
	case "endif", "endfor", "endset", "endfilter", "endgeneration":
		w.close(p, word)
	case "endmacro", "endcall":
		w.close(p, word)
		before = fmt.Sprintf("{{ %s() }}", leaveName)
	case "for":
		return "", w.loop(p), after
	case "set":
		return w.set(p, text)
	case "macro":
		return w.macro(p, text)
	case "call":
		return w.call(p, text)
	case "filter":
		w.open(p, word)
		name := p.variable()
		if !slices.Contains(plainFilters, name) { // the engine would leave the text as it is
			p.failf("a block may be filtered only by one of %s", strings.Join(plainFilters, ", "))
		}
		return "", word + " " + name, after
	default:
		p.at--
		p.failf("%s where a statement such as if, for or set should stand", p.found())
	}
	return before, word, after
}

func (w *rewriter) open(p *parser, word string) {
	if w.blocks = append(w.blocks, word); len(w.blocks) > blocksMax {
		p.failf("more than %d blocks within each other", blocksMax)
	}
}

func (w *rewriter) close(p *parser, word string) {
	n := len(w.blocks)
	if n == 0 || "end"+w.blocks[n-1] != word {
		p.failf("%s without its beginning", word)
		return
	}
	w.blocks = w.blocks[:n-1]
}

// leaveRound checks that a loop is there to be left, in the same macro.
func (w *rewriter) leaveRound(p *parser, word string) {
	for i := len(w.blocks) - 1; i >= 0 && w.blocks[i] != "macro" && w.blocks[i] != "call"; i-- {
		if w.blocks[i] == "for" {
			return
		}
	}
	p.failf("%s outside of a loop", word)
}

func (w *rewriter) loop(p *parser) string {
	w.open(p, "for")
	text := "for " + p.variable()
	if p.take(",") {
		text += ", " + p.variable()
	}
	p.expect("in")
	// The engine splits the rest at the words that are in no brackets.
	text += " in " + passed(p.or(), itemsName)
	if p.take("if") {
		text += " if (" + p.expression().text + ")|" + passName
	}
	return text
}

func (w *rewriter) set(p *parser, text int) (before, written, after string) {
	name := p.variable()
	if p.peek() == "" {
		w.open(p, "set")
		return "", "set " + name, report(text)
	}
	if p.take(".") {
		name += "." + p.variable()
	}
	p.expect("=")
	// The engine takes what is behind the first = for the value.
	return "", "set " + name + " = " + p.expression().text, report(text, name)
}

// macro reads name(a, b=default). The engine splits the parameters at every
// comma, even in quotes.
func (w *rewriter) macro(p *parser, text int) (before, written, after string) {
	w.open(p, "macro")
	written = "macro " + p.variable() + "("
	p.expect("(")
	var names []string
	for p.err == nil && !p.take(")") {
		name := p.variable()
		if len(names) > 0 {
			written += ", "
		}
		names = append(names, name)
		written += name
		if p.take("=") {
			value := p.expression().text
			if p.calls > 0 {
				// It is found before the macro reports, and might call the macro.
				p.failf("the default of %s calls a function or filter, which is not supported", short(name))
			}
			if strings.Contains(value, ",") {
				p.failf("the default of %s has a comma, which is not supported", short(name))
			}
			written += "=" + value
		}
		if p.peek() != ")" {
			p.expect(",")
		}
	}
	return "", written + ")", fmt.Sprintf("{{ %s() }}", enterName) + report(text, names...)
}

// call reads (a, b) f(…), or f(…) alone.
func (w *rewriter) call(p *parser, text int) (before, written, after string) {
	w.open(p, "call")
	var names []string
	if p.take("(") {
		for p.err == nil && !p.take(")") {
			names = append(names, p.variable())
			if p.peek() != ")" {
				p.expect(",")
			}
		}
	}
	e := p.expression()
	if e.call == "" {
		p.failf("a call block of what is no call")
	}
	written = "call(" + strings.Join(names, ", ") + ") " + e.call
	return "", written, fmt.Sprintf("{{ %s() }}", enterName) + report(text, names...)
}
