package main

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"unicode"

	"github.com/tokenrouter/tokenrouter/backend/subserver"
)

// ANSI codes by writer: the small model plain, the others in colours that
// people with any kind of colour vision tell from it, since they are bold too.
var writerCodes = []string{"", "\x1b[1;33m", "\x1b[1;36m", "\x1b[1;35m"}

const plainCode = "\x1b[0m"

// tokens prints an answer by the model that wrote each part of it.
type tokens struct {
	w        io.Writer
	o        *generateOptions
	p        *pair
	colour   bool
	terminal bool
	writer   int // of what was printed last
	open     bool
	last     byte // that was printed
}

func newTokens(w io.Writer, o *generateOptions, p *pair) *tokens {
	return &tokens{w: w, o: o, p: p, colour: hasColours(w), terminal: isTerminal(w)}
}

// chunk prints what came at once.
func (t *tokens) chunk(c *subserver.Chunk) error {
	if t.o.json {
		return t.lines(c)
	}
	if c.Text == "" {
		return nil
	}
	var b strings.Builder
	t.turn(&b, c.Writer)
	b.WriteString(t.printable(c.Text))
	t.last = c.Text[len(c.Text)-1]
	_, err := io.WriteString(t.w, b.String())
	return err
}

// printable keeps a model from steering the terminal: control characters become
// dots there. Elsewhere text stays as it is.
func (t *tokens) printable(text string) string {
	if !t.terminal {
		return text
	}
	return strings.Map(func(r rune) rune {
		if unicode.IsControl(r) && r != '\n' && r != '\t' {
			return '·'
		}
		return r
	}, text)
}

// turn marks a change of the writer.
func (t *tokens) turn(b *strings.Builder, writer int) {
	if t.open && t.writer != writer {
		t.close(b)
	}
	if t.writer = writer; t.open || writer == 0 {
		return
	}
	t.open = true
	if t.colour {
		b.WriteString(writerCodes[min(writer, len(writerCodes)-1)])
	}
	if t.o.mark {
		b.WriteString("⟪")
	}
}

func (t *tokens) close(b *strings.Builder) {
	t.open = false
	if t.o.mark {
		b.WriteString("⟫")
	}
	if t.colour {
		b.WriteString(plainCode)
	}
}

// end leaves the terminal as it was, at the start of a line.
func (t *tokens) end() {
	if t.o.json {
		return
	}
	var b strings.Builder
	if t.open {
		t.close(&b)
	}
	if t.last != '\n' {
		b.WriteByte('\n')
	}
	io.WriteString(t.w, b.String()) // the answer is out; a broken pipe has been told
}

// lines prints an object for each token.
func (t *tokens) lines(c *subserver.Chunk) error {
	for i, token := range c.Tokens {
		line, err := json.Marshal(struct {
			Position int         `json:"position"`
			Token    int32       `json:"token"`
			Text     string      `json:"text"`
			Writer   string      `json:"writer"`
			AtMs     json.Number `json:"at_ms"`
		}{c.Start + i, int32(token), t.p.tok.TokenText(token), t.p.names[c.Writer], json.Number(fmt.Sprintf("%.3f", float64(c.AtNs)/1e6))})
		if err != nil {
			return err
		}
		if _, err := t.w.Write(append(line, '\n')); err != nil {
			return err
		}
	}
	return nil
}
