package tokenizer

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"

	"github.com/tokenrouter/tokenrouter/internal/regular"
)

// Files of a model's folder that Open reads. Only the first must be there.
const (
	tokenizerFile  = "tokenizer.json"
	configFile     = "tokenizer_config.json"
	templateFile   = "chat_template.jinja"
	generationFile = "generation_config.json"
	modelFile      = "config.json"
)

// ErrUnsupported is within the errors about tokenizers that are whole but of
// another kind.
var ErrUnsupported = errors.New("not supported")

// A FileError is what is wrong with one file of a tokenizer.
type FileError struct {
	Path string
	Err  error
}

func (e *FileError) Error() string { return e.Path + ": " + e.Err.Error() }
func (e *FileError) Unwrap() error { return e.Err }

// Open reads the tokenizer in a model's folder: tokenizer.json, and where they
// are there tokenizer_config.json (BOS, EOS, chat template), chat_template.jinja
// (which goes before the config's), generation_config.json (further EOS ids),
// and config.json (an EOS id, if none of the others has one). Anything that it
// cannot follow exactly is an error that names file, field and value.
func Open(dir string) (*Tokenizer, error) {
	path := filepath.Join(dir, tokenizerFile)
	text, err := regular.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%w: a folder with a byte-level BPE tokenizer in Hugging Face's format is needed", err)
	}
	if err != nil {
		return nil, err
	}
	t, err := parse(string(text))
	if err != nil {
		return nil, &FileError{path, err}
	}
	for _, f := range []struct {
		name string
		read func(text []byte) error
	}{
		{configFile, t.readConfig},
		{templateFile, t.readTemplateFile},
		{generationFile, t.readEOS},
		{modelFile, func(text []byte) error {
			if len(t.eos) > 0 {
				return nil
			}
			return t.readEOS(text)
		}},
	} {
		path := filepath.Join(dir, f.name)
		text, err := regular.ReadFile(path)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err == nil {
			err = f.read(text)
		}
		if err != nil {
			return nil, &FileError{path, err}
		}
	}
	return t, nil
}

// textOrObject is a token of tokenizer_config.json: its text, or an object with
// it.
type textOrObject string

func (t *textOrObject) UnmarshalJSON(text []byte) error {
	var object struct {
		Content string `json:"content"`
	}
	if len(text) > 0 && text[0] == '{' {
		err := unmarshal(text, &object)
		*t = textOrObject(object.Content)
		return err
	}
	return unmarshal(text, (*string)(t))
}

type config struct {
	AddBOS   *bool           `json:"add_bos_token"`
	AddEOS   *bool           `json:"add_eos_token"`
	BOS      textOrObject    `json:"bos_token"`
	EOS      textOrObject    `json:"eos_token"`
	Template json.RawMessage `json:"chat_template"`
}

func (t *Tokenizer) readConfig(text []byte) error {
	var c config
	if err := unmarshal(text, &c); err != nil {
		return err
	}
	t.bosText, t.eosText = string(c.BOS), string(c.EOS)
	if c.BOS != "" {
		id, ok := t.ID(string(c.BOS))
		if !ok {
			return fmt.Errorf("bos_token is %q, which %s lacks", c.BOS, tokenizerFile)
		}
		t.bos = id
	}
	if c.EOS != "" {
		id, ok := t.ID(string(c.EOS))
		if !ok {
			return fmt.Errorf("eos_token is %q, which %s lacks", c.EOS, tokenizerFile)
		}
		t.eos = []Token{id}
	}
	// A config that speaks of either token decides about both; what the
	// post-processor says counts only if it does not.
	if c.AddBOS != nil || c.AddEOS != nil {
		t.prefix, t.suffix = nil, nil
	}
	if c.AddBOS != nil && *c.AddBOS && t.bos >= 0 {
		t.prefix = []Token{t.bos}
	}
	if c.AddEOS != nil && *c.AddEOS && len(t.eos) > 0 {
		t.suffix = []Token{t.eos[0]}
	}
	return t.readTemplates(c.Template)
}

// readTemplates reads chat_template: one template, or a list of named ones.
func (t *Tokenizer) readTemplates(text json.RawMessage) error {
	if len(text) == 0 || string(text) == "null" {
		return nil
	}
	if text[0] == '"' {
		var one string
		if err := unmarshal(text, &one); err != nil {
			return err
		}
		t.setTemplate("default", one)
		return nil
	}
	var list []struct{ Name, Template string }
	if err := unmarshal(text, &list); err != nil {
		return fmt.Errorf("chat_template is neither a template nor a list of named ones: %w", err)
	}
	for _, one := range list {
		t.setTemplate(one.Name, one.Template)
	}
	return nil
}

func (t *Tokenizer) readTemplateFile(text []byte) error {
	t.setTemplate("default", string(text))
	return nil
}

// readEOS reads eos_token_id, an id or a list of them.
func (t *Tokenizer) readEOS(text []byte) error {
	var c struct {
		EOS json.RawMessage `json:"eos_token_id"`
	}
	if err := unmarshal(text, &c); err != nil {
		return err
	}
	if len(c.EOS) == 0 || string(c.EOS) == "null" {
		return nil
	}
	if c.EOS[0] != '[' {
		c.EOS = slices.Concat([]byte("["), c.EOS, []byte("]"))
	}
	var ids []Token
	if err := unmarshal(c.EOS, &ids); err != nil {
		return fmt.Errorf("eos_token_id is neither an id nor a list of ids: %w", err)
	}
	for _, id := range ids {
		if id < 0 {
			return fmt.Errorf("eos_token_id has the id %d", id)
		}
		if !slices.Contains(t.eos, id) {
			t.eos = append(t.eos, id)
		}
	}
	return nil
}
