package tokenizer

import (
	"fmt"
	"slices"
	"strings"
)

// What a template's tags say is read here and written anew, every expression in
// brackets, so that the engine cannot read it otherwise: it splits some
// statements as text, even within quotes, and skips what it does not know. What
// may make much of little is written as a call of the meter's, and what costs
// more the longer a value is has the meter look at the value first.
const (
	meteredPrefix = "metered_"
	stepName      = meteredPrefix + "step"
	printName     = meteredPrefix + "print"
	enterName     = meteredPrefix + "enter"
	leaveName     = meteredPrefix + "leave"
	lookName      = meteredPrefix + "look"
	copiedName    = meteredPrefix + "copied"
	withinName    = meteredPrefix + "within"
	writtenName   = meteredPrefix + "written"
	itemsName     = meteredPrefix + "items"
	passName      = meteredPrefix + "pass"
	productName   = meteredPrefix + "product"
	sumName       = meteredPrefix + "sum"
	sliceName     = meteredPrefix + "slice"
	mapName       = meteredPrefix + "map"
	markupName    = meteredPrefix + "markup"
	rowName       = meteredPrefix + "row"
	eachName      = meteredPrefix + "each"
	keptName      = meteredPrefix + "kept"
	fieldName     = meteredPrefix + "field"
)

// Limits of a tag: ten times and more what templates of known models have. Depth
// counts, with that of blocks and macros, for the stack of a rendering, which is
// recursive.
const (
	tokensMax = 4000
	depthMax  = 200 // of expressions within each other; a - b - c has 3
	digitsMax = 9
)

// growing are the filters and methods whose results may be longer than all that
// they are given, or that change what they are given. The meter has its own.
var growing = map[string]string{"replace": "|.", "join": "|", "indent": "|", "format": ".", "append": ".", "insert": ".", "update": ".",
	"split": ".", "strip": ".", "lstrip": ".", "rstrip": ".", "trim": "|", "list": "|", "fromjson": "|", "from_json": "|"}

// cheap are the filters that take as long for any value.
var cheap = []string{"default", "d", "first", "last", "length", "count", "abs"}

// ofItems are the filters that go through what they are given. The engine does
// so with lists alone.
var ofItems = []string{"first", "last", "sort", "unique", "max", "min", "select", "reject", "selectattr", "rejectattr", "batch"}

// plainFilters make a text of a text, and no longer one.
var plainFilters = []string{"upper", "lower", "trim", "title", "capitalize", "string"}

// reserved words are no names, though the engine may take them for some.
var reserved = []string{"if", "elif", "else", "and", "or", "not", "in", "is", "for", "recursive"}

// constants are written in small and, as in Python, with a capital.
var constants = []string{"none", "None", "null", "true", "True", "false", "False"}

// code is an expression as the engine will read it.
type code struct {
	text    string
	name    string // of a plain variable
	call    string // of a call, what it is itself
	depth   int
	literal bool // a text, number or constant
	markup  bool // a text that is safe in HTML
}

// parser reads one tag. The first error ends it: from there on it sees the end of
// the tag.
type parser struct {
	tokens []string
	at     int
	calls  int // of filters too
	err    error
}

func (p *parser) failf(format string, args ...any) {
	if p.err == nil {
		p.err = fmt.Errorf(format, args...)
	}
	p.at = len(p.tokens)
}

// peek is the next token, "" at the end.
func (p *parser) peek() string { return p.peekAt(0) }

func (p *parser) peekAt(i int) string {
	if p.at+i < len(p.tokens) {
		return p.tokens[p.at+i]
	}
	return ""
}

func (p *parser) take(token string) bool {
	if token == "" || p.peek() != token {
		return false
	}
	p.at++
	return true
}

func (p *parser) expect(token string) {
	if !p.take(token) {
		p.failf("%s where %q should stand", p.found(), token)
	}
}

func (p *parser) found() string {
	if p.peek() == "" {
		return "the end of the tag"
	}
	return short(p.peek())
}

func isName(token string) bool {
	return token != "" && (token[0] == '_' || token[0]|' ' >= 'a' && token[0]|' ' <= 'z')
}

func isDigit(c byte) bool { return c >= '0' && c <= '9' }

// variable reads a name that is given a value.
func (p *parser) variable() string {
	name := p.peek()
	if !isName(name) || slices.Contains(reserved, name) || slices.Contains(constants, name) {
		p.failf("%s where a name should stand", p.found())
		return ""
	}
	p.at++
	return name
}

// node is an expression of parts.
func (p *parser) node(text string, parts ...code) code {
	depth := 0
	for _, part := range parts {
		depth = max(depth, part.depth)
	}
	if depth++; depth > depthMax {
		p.failf("more than %d expressions within each other", depthMax)
	}
	return code{text: text, depth: depth}
}

// look has the meter see all of a value before it is worked on.
func look(e code) string { return passed(e, lookName) }

// written has it make the text of a value, which will be part of another.
func written(e code) string {
	if strings.HasPrefix(e.text, "'") {
		return passed(e, writtenName)
	}
	return "(" + e.text + "|" + writtenName + ")" // of none or 1.0 too
}

func passed(e code, filter string) string {
	if e.literal {
		return e.text
	}
	return "(" + e.text + "|" + filter + ")"
}

func (p *parser) expression() code {
	e := p.or()
	if !p.take("if") {
		return e
	}
	condition := p.or()
	text := "(" + e.text + " if " + condition.text
	if !p.take("else") {
		return p.node(text+")", e, condition)
	}
	other := p.expression()
	return p.node(text+" else "+other.text+")", e, condition, other)
}

// operators reads what has operators of one rank between its parts.
func (p *parser) operators(part func() code, write func(operator string, a, b code) string, operators ...string) code {
	left := part()
	for slices.Contains(operators, p.peek()) {
		operator := p.peek()
		p.at++
		right := part()
		if operator == "%" && strings.ContainsAny(left.text[:min(1, len(left.text))], `'"`) {
			// The engine takes it for a remainder and prints 0: a wrong prompt that
			// nobody would notice.
			p.failf(`"…" %% … , the formatting of strings, is not supported`)
		}
		markup := operator == "+" && (left.markup || right.markup)
		if markup {
			// What is not yet safe becomes so, even though no escapes are asked for.
			left, right = p.safe(left), p.safe(right)
		}
		left = p.node("("+write(operator, left, right)+")", left, right)
		left.markup = markup
	}
	return left
}

func (p *parser) safe(e code) code {
	if e.markup {
		return e
	}
	return p.node("("+e.text+"|"+markupName+")", e)
}

func writePlain(operator string, a, b code) string {
	return a.text + " " + operator + " " + b.text
}

func writeLooked(operator string, a, b code) string {
	switch operator {
	case "*":
		return productName + "(" + a.text + ", " + b.text + ")"
	case "+":
		return sumName + "(" + a.text + ", " + b.text + ")"
	case "~":
		return written(a) + " " + operator + " " + written(b)
	}
	return look(a) + " " + operator + " " + look(b)
}

func (p *parser) or() code  { return p.operators(p.and, writePlain, "or") }
func (p *parser) and() code { return p.operators(p.not, writePlain, "and") }

func (p *parser) not() code {
	if !p.take("not") {
		return p.comparison()
	}
	e := p.not()
	return p.node("(not "+e.text+")", e)
}

func (p *parser) comparison() code {
	left := p.join()
	for {
		var text string
		var right code
		switch operator := p.peek(); {
		case operator == "==" || operator == "!=":
			p.at++
			if right = p.join(); right.literal {
				text = writePlain(operator, left, right)
			} else {
				text = look(left) + " " + operator + " " + right.text
			}
		case operator == "<" || operator == ">" || operator == "<=" || operator == ">=":
			p.at++
			right = p.join()
			text = writeLooked(operator, left, right)
		case operator == "in" || operator == "not" && p.peekAt(1) == "in":
			if p.at++; operator == "not" {
				p.at++
				operator = "not in"
			}
			right = p.join()
			text = left.text + " " + operator + " " + passed(right, withinName)
		case operator == "is":
			p.at++
			left = p.test(left)
			continue
		default:
			return left
		}
		left = p.node("("+text+")", left, right)
	}
}

func (p *parser) test(e code) code {
	is := " is "
	if p.take("not") {
		is += "not "
	}
	name := p.peek()
	if !isName(name) {
		p.failf("%s where a test should stand", p.found())
		return code{}
	}
	p.at++
	text := e.text
	if name == "iterable" || name == "sequence" {
		// To Python, texts, objects and what is not there are both.
		text = "(" + e.text + "|" + rowName + ")"
	}
	text = "(" + text + is + name
	parts := []code{e}
	if p.peek() == "(" {
		a := p.arguments()
		if len(a.names) > 0 {
			p.failf("the test %s takes no arguments by name", short(name))
		}
		text += "(" + a.write(look) + ")"
		parts = append(parts, a.values...)
	}
	return p.node(text+")", parts...)
}

func (p *parser) join() code     { return p.operators(p.sum, writeLooked, "~") }
func (p *parser) sum() code      { return p.operators(p.products, writeLooked, "+", "-") }
func (p *parser) products() code { return p.operators(p.power, writeLooked, "*", "/", "//", "%") }

func (p *parser) power() code {
	base := p.unary()
	if !p.take("**") {
		return base
	}
	exponent := p.unary()
	return p.node("("+writeLooked("**", base, exponent)+")", base, exponent)
}

func (p *parser) unary() code {
	sign := p.peek()
	if !p.take("-") && !p.take("+") {
		return p.postfix()
	}
	e := p.unary()
	signed := p.node("("+sign+e.text+")", e)
	signed.literal = e.literal
	return signed
}

func (p *parser) postfix() code {
	e := p.atom()
	for {
		switch {
		case p.take("."):
			e = p.attribute(e)
		case p.take("["):
			e = p.item(e)
		case p.peek() == "(":
			e = p.called(e)
		case p.take("|"):
			e = p.filter(e)
		default:
			return e
		}
	}
}

func (p *parser) attribute(e code) code {
	name := p.peek()
	if !isName(name) && (name == "" || strings.Trim(name, "0123456789") != "") {
		p.failf("%s where the name of an attribute should stand", p.found())
		return code{}
	}
	p.at++
	if e.literal {
		e.text = "(" + e.text + ")" // or 1 .5 would be one number
	}
	metered := strings.Contains(growing[name], ".")
	if p.peek() != "(" {
		if metered {
			return p.node("("+e.text+"|"+fieldName+"('"+name+"'))", e)
		}
		return p.node(e.text+"."+name, e)
	}
	a := p.arguments()
	parts := append([]code{e}, a.values...)
	if metered && len(a.names) > 0 && name != "split" {
		p.failf("the method %s with arguments by name is not supported", name) // the engine would leave them out
	}
	if metered {
		return p.node("("+e.text+"|"+meteredPrefix+name+"("+a.write(plain)+"))", parts...)
	}
	called := p.node(e.text+"."+name+"("+a.write(look)+")", parts...)
	called.call = called.text
	called.text = passed(called, copiedName)
	return called
}

// item reads an index or a slice behind its bracket.
func (p *parser) item(e code) code {
	parts := []code{e}
	var names []string
	colons := 0
	for i, name := range []string{"start", "stop", "step"} {
		if p.peek() != ":" && p.peek() != "]" {
			bound := p.expression()
			parts = append(parts, bound)
			names = append(names, ", "+name+"="+bound.text)
		}
		if i == 2 || !p.take(":") {
			break
		}
		colons++
	}
	p.expect("]")
	switch {
	case colons == 0 && len(parts) == 1:
		p.failf("an index without a value")
		return code{}
	case len(names) > 1 && strings.HasPrefix(names[len(names)-1], ", step="):
		// The engine counts from the start to the stop, wherever they are.
		p.failf("a slice with a step has to be of the whole, [::-1]")
		return code{}
	case colons == 0:
		return p.node(e.text+"["+look(parts[1])+"]", parts...)
	}
	return p.node(sliceName+"("+e.text+strings.Join(names, "")+")", parts...)
}

func (p *parser) called(e code) code {
	a := p.arguments()
	if e.name == "dict" || e.name == "namespace" {
		// The engine gives these their fields in any order, and takes none but
		// named ones.
		if len(a.names) < len(a.values) {
			p.failf("%s of a value is not supported, only of fields by name", e.name)
			return code{}
		}
		if len(a.values) > 0 {
			return p.node("{ "+a.writeFields()+" }", a.values...)
		}
	}
	called := p.node(e.text+"("+a.write(look)+")", append([]code{e}, a.values...)...)
	called.call = called.text
	return called
}

func (p *parser) filter(e code) code {
	name := p.peek()
	if !isName(name) {
		p.failf("%s where a filter should stand", p.found())
		return code{}
	}
	p.at++
	p.calls++ // a macro, perhaps
	var a arguments
	if p.peek() == "(" {
		a = p.arguments()
	}
	if slices.Contains(ofItems, name) {
		e = p.node("("+e.text+"|"+eachName+")", e)
	}
	parts := append([]code{e}, a.values...)
	write := func(value, name string, each func(code) string, more ...string) code {
		if written := a.write(each); written != "" {
			more = append([]string{written}, more...)
		}
		if len(more) > 0 {
			name += "(" + strings.Join(more, ", ") + ")"
		}
		return p.node("("+value+"|"+name+")", parts...)
	}
	switch {
	case name == "format":
		return write(e.text, meteredPrefix+"formatted", plain)
	case name == "tojson":
		return write(e.text, pythonFilter, plain)
	case strings.Contains(growing[name], "|"):
		return write(e.text, meteredPrefix+name, plain)
	case name == "map" && !slices.Contains(a.names, "attribute"):
		// The engine would leave the list as it is, a wrong prompt that nobody
		// would notice, and the new one would share its memory.
		if len(a.values) != 1 || len(a.names) > 0 || !namesPlainFilter(a.values[0]) {
			p.failf("map is supported only with attribute=, tojson or one of %s", strings.Join(plainFilters, ", "))
		}
		return write(look(e), mapName, plain)
	case name == "safe":
		return code{text: e.text, depth: e.depth, literal: e.literal, markup: true}
	case name == "escape" || name == "e":
		e = p.safe(p.node(written(e), e))
		e.markup = true
		return e
	case slices.Contains(cheap, name):
		return write(e.text, name, plain)
	case (name == "selectattr" || name == "rejectattr") && len(a.values) == 1:
		return write(look(e), name, look, "'truthy'") // the engine would panic
	case (name == "select" || name == "reject") && len(a.values) == 0:
		return write(look(e), name, look, "''")
	case slices.Contains(plainFilters, name):
		return write(written(e), name, look)
	}
	return write(look(e), name, look)
}

func namesPlainFilter(e code) bool {
	name := strings.Trim(e.text, `'"`)
	return e.literal && len(e.text) == len(name)+2 && (name == "tojson" || slices.Contains(plainFilters, name))
}
