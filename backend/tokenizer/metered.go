package tokenizer

import (
	"fmt"
	"slices"
	"strings"
)

// A template is a stranger's program, and the engine bounds neither its time nor
// its memory. So its source is written anew before it is compiled: every tag
// reports to a meter (see meter.go), which ends a rendering that does too much;
// what can make much of little within one tag goes through the meter (see
// code.go). What is not plain Jinja is refused. The text between the tags is
// printed by the reports, so that the engine changes none of its white space.

// Limits of sources: ten times and more what templates of known models have.
const (
	sourceMax = 256 << 10
	blocksMax = 100 // within each other
)

// rewriter writes a template anew.
type rewriter struct {
	out    []string
	blocks []block // that are open
}

// block is one that is open.
type block struct {
	word string
	at   int      // of a loop: where its tag stands in out
	own  []string // of a loop: the variables that it goes through
	sets []string // of a loop: those that it sets
}

// metered returns source with its reports.
func metered(source string) (string, error) {
	if len(source) > sourceMax {
		return "", fmt.Errorf("it has %d bytes; at most %d are read", len(source), sourceMax)
	}
	if strings.Contains(source, meteredPrefix) || strings.Contains(source, "__filter_") {
		return "", fmt.Errorf("names with %s or __filter_ are reserved", meteredPrefix)
	}
	pieces, err := cutSource(source)
	if err != nil {
		return "", err
	}
	w := &rewriter{out: []string{report(pieces[0].text)}}
	for _, piece := range pieces[1:] {
		if err := w.tag(piece); err != nil {
			return "", fmt.Errorf("line %d: %w", piece.line, err)
		}
	}
	if n := len(w.blocks); n > 0 {
		return "", fmt.Errorf("%s without its end", w.blocks[n-1].word)
	}
	return strings.Join(w.out, ""), nil
}

// tag writes a tag and the text behind it.
func (w *rewriter) tag(piece piece) error {
	tokens, err := splitCode(piece.code)
	if err != nil {
		return err
	}
	p := &parser{tokens: tokens}
	var before, written, after string
	if piece.open == '%' {
		before, written, after = w.statement(p, piece.text)
		// The engine looks for text to trim until it finds some, which may be far,
		// but for this line end.
		written = "{% " + written + " %}\n"
	} else {
		if len(tokens) > 0 {
			written = "{{ (" + p.expression().text + ")|" + printName + " }}"
		}
		after = report(piece.text)
	}
	if p.peek() != "" {
		p.failf("%s where the tag should end", p.found())
	}
	w.out = append(w.out, before, written, "", after) // see keepFromRounds
	return p.err
}

// report prints the text behind a tag by way of the meter, which also sees what
// variables hold.
func report(text string, variables ...string) string {
	return fmt.Sprintf("{{ %s(%s) }}", stepName, strings.Join(append([]string{quoted(text)}, variables...), ", "))
}

// statement reads one and returns it with what belongs before and after it. What
// it sets, and what a macro is called with, goes to the meter, which knows how
// long it is.
func (w *rewriter) statement(p *parser, text string) (before, written, after string) {
	after = report(text)
	word := p.peek()
	p.at++
	switch word {
	case "if":
		w.open(p, word)
		return "", word + " " + p.expression().text, after
	case "elif":
		return "", word + " " + p.expression().text, after
	case "else":
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
	if w.blocks = append(w.blocks, block{word: word, at: len(w.out)}); len(w.blocks) > blocksMax {
		p.failf("more than %d blocks within each other", blocksMax)
	}
}

func (w *rewriter) close(p *parser, word string) {
	n := len(w.blocks)
	if n == 0 || "end"+w.blocks[n-1].word != word {
		p.failf("%s without its beginning", word)
		return
	}
	if word == "endfor" {
		w.keepFromRounds(w.blocks[n-1])
	}
	w.blocks = w.blocks[:n-1]
}

// scope is the innermost block that has variables of its own, or nil.
func (w *rewriter) scope() *block {
	for i := len(w.blocks) - 1; i >= 0; i-- {
		if word := w.blocks[i].word; word == "for" || word == "macro" || word == "call" {
			return &w.blocks[i]
		}
	}
	return nil
}

// keepFromRounds has each round of a loop begin with the variables from before
// the loop. To the engine, what a round sets is there in the next one.
func (w *rewriter) keepFromRounds(loop block) {
	for _, name := range loop.sets {
		kept := fmt.Sprintf("%s_%d_%s", keptName, len(w.blocks), name)
		w.out[loop.at] += "{% set " + kept + " = " + name + " %}\n"
		w.out[loop.at+2] += "{% set " + name + " = " + kept + " %}\n"
	}
}

// leaveRound checks that a loop is there to be left, in the same macro.
func (w *rewriter) leaveRound(p *parser, word string) {
	if scope := w.scope(); scope == nil || scope.word != "for" {
		p.failf("%s outside of a loop", word)
	}
}

func (w *rewriter) loop(p *parser) string {
	w.open(p, "for")
	loop := w.scope()
	loop.own = append(loop.own, "loop", p.variable())
	text := "for " + loop.own[1]
	if p.take(",") {
		loop.own = append(loop.own, p.variable())
		text += ", " + loop.own[2]
	}
	p.expect("in")
	// The engine splits the rest at the words that are in no brackets.
	text += " in " + passed(p.or(), itemsName)
	if p.take("if") {
		text += " if (" + p.expression().text + ")|" + passName
	}
	return text
}

func (w *rewriter) set(p *parser, text string) (before, written, after string) {
	name := p.variable()
	if scope := w.scope(); scope != nil && p.peek() != "." && !slices.Contains(scope.own, name) && !slices.Contains(scope.sets, name) {
		scope.sets = append(scope.sets, name)
	}
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
func (w *rewriter) macro(p *parser, text string) (before, written, after string) {
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
func (w *rewriter) call(p *parser, text string) (before, written, after string) {
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
