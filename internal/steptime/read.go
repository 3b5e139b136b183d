package steptime

import (
	"errors"
	"fmt"
	"os"
	"regexp"
	"strconv"
	"strings"

	"github.com/BurntSushi/toml"

	"github.com/tokenrouter/tokenrouter/internal/nearest"
	"github.com/tokenrouter/tokenrouter/internal/regular"
)

// fileMax bounds a profile file: the largest grid that is accepted (64 values on
// each of three axes, some ten bytes a cell) fits.
const fileMax = 4 << 20

// Cells are the times of a [Table] in ms, written requests x context_tokens, or
// requests x extra_rows x context_tokens where the table has extra rows.
type Cells struct {
	Values [][][]float64 // always three levels
	flat   bool          // written with two
}

// FlatCells are times over requests x context_tokens.
func FlatCells(ms [][]float64) Cells {
	cells := Cells{flat: true}
	for _, line := range ms {
		cells.Values = append(cells.Values, [][]float64{line})
	}
	return cells
}

func (c *Cells) index(i, j int) string {
	if c.flat {
		return fmt.Sprintf("[%d]", i)
	}
	return fmt.Sprintf("[%d][%d]", i, j)
}

// UnmarshalTOML implements [toml.Unmarshaler].
func (c *Cells) UnmarshalTOML(data any) error {
	outer, ok := data.([]any)
	if !ok {
		return errors.New(" must be an array of arrays of ms")
	}
	*c = Cells{flat: true}
	for i, middle := range outer {
		values, depth, err := cellLines(middle)
		if err != nil {
			return fmt.Errorf("[%d]%w", i, err)
		}
		if i > 0 && c.flat != (depth == 1) {
			return fmt.Errorf("[%d] is nested otherwise than [0]", i)
		}
		c.flat = depth == 1
		c.Values = append(c.Values, values)
	}
	return nil
}

// cellLines reads one line of numbers (depth 1) or an array of such (depth 2).
func cellLines(data any) (lines [][]float64, depth int, err error) {
	array, ok := data.([]any)
	if !ok || len(array) == 0 {
		return nil, 0, errors.New(" must be an array of ms that is not empty")
	}
	if _, ok := array[0].([]any); !ok {
		line, err := cellLine(array)
		return [][]float64{line}, 1, err
	}
	for j, inner := range array {
		line, err := cellLine(inner)
		if err != nil {
			return nil, 0, fmt.Errorf("[%d]%w", j, err)
		}
		lines = append(lines, line)
	}
	return lines, 2, nil
}

func cellLine(data any) ([]float64, error) {
	array, ok := data.([]any)
	if !ok {
		return nil, errors.New(" must be an array of ms")
	}
	line := make([]float64, len(array))
	for k, cell := range array {
		switch value := cell.(type) {
		case float64:
			line[k] = value
		case int64:
			line[k] = float64(value)
		default:
			return nil, fmt.Errorf("[%d] must be a number of ms", k)
		}
	}
	return line, nil
}

// keys are all that a profile file may hold; the ones marked true it must hold.
var keys = []struct {
	name     string
	required bool
}{
	{"origin", true}, {"licence", true}, {"engine", true}, {"engine_version", true},
	{"gpu", true}, {"model", true}, {"tp", true}, {"notes", true},
	{"variant", false},
	{"valid", true}, {"valid.requests", true}, {"valid.rows", true}, {"valid.context_tokens", true},
	{"cpu", true}, {"cpu.launch_ms", true}, {"cpu.serial_ms", true},
	{"table", true}, {"table.requests", true}, {"table.context_tokens", true}, {"table.ms", true},
	{"table.extra_rows", false},
	{"rows", false}, {"rows.rows", false}, {"rows.ms", false}, {"rows.attention_ns_per_row_token", false},
}

// LoadFile reads and checks a profile file. Errors name the file, the line where
// it can be told, and the key.
func LoadFile(path string) (*Profile, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, fmt.Errorf("profile: %w", err)
	}
	if info.Size() > fileMax {
		return nil, fmt.Errorf("profile %s: %d bytes are too many for a profile; at most %d are read", path, info.Size(), fileMax)
	}
	text, err := regular.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("profile: %w", err)
	}
	return parse(path, string(text))
}

// parse reads a profile strictly; name stands for the file in errors.
func parse(name, text string) (*Profile, error) {
	p := &Profile{Name: name}
	meta, err := toml.Decode(text, p)
	if err != nil {
		return nil, decodeError(name, text, err)
	}
	found := unknownKey(meta)
	if found == nil {
		found = missingKey(meta)
	}
	if found == nil {
		found = p.check()
	}
	if found != nil {
		return nil, at(name, lineOf(text, found.key), found)
	}
	return p, nil
}

func at(name string, line int, err error) error {
	if line == 0 {
		return fmt.Errorf("%s: %w", name, err)
	}
	return fmt.Errorf("%s:%d: %w", name, line, err)
}

// decoderMessage takes the decoder's messages apart: line, key, problem.
var decoderMessage = regexp.MustCompile(`(?s)^toml: (?:line (\d+))? ?(?:\(last key "(.*?)"\))?: (.*)$`)

// decodeError turns the decoder's message into ours: file, line, key, problem.
func decodeError(name, text string, err error) error {
	parts := decoderMessage.FindStringSubmatch(err.Error())
	if parts == nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	line, _ := strconv.Atoi(parts[1]) // 0, unknown, if there is none
	key, message := parts[2], parts[3]
	if line == 0 {
		line = lineOf(text, key)
	}
	if key != "" {
		message = key + ": " + message
	}
	return at(name, line, errors.New(message))
}

func unknownKey(meta toml.MetaData) *problem {
	undecoded := meta.Undecoded()
	if len(undecoded) == 0 {
		return nil
	}
	var known []string
	for _, key := range keys {
		known = append(known, key.name)
	}
	name := strings.Join(undecoded[0], ".")
	text := " is not a key of a profile"
	if names := nearest.Names(name, known); len(names) > 0 {
		text += "; did you mean " + strings.Join(names, " or ") + "?"
	}
	return &problem{name, text}
}

func missingKey(meta toml.MetaData) *problem {
	rows := meta.IsDefined("rows")
	for _, key := range keys {
		required := key.required || rows && strings.HasPrefix(key.name, "rows.")
		if required && !meta.IsDefined(strings.Split(key.name, ".")...) {
			return &problem{key.name, " is missing"}
		}
	}
	return nil
}
