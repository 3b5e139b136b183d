package main

import (
	"context"
	"errors"
	"io/fs"
	"path/filepath"
	"strings"

	"github.com/tokenrouter/tokenrouter/backend/tokenizer"
	"github.com/tokenrouter/tokenrouter/experiments/engines"
	"github.com/tokenrouter/tokenrouter/internal/modelconfig"
)

// What doctor advises depends on what is wrong: a file that is missing, a file
// that is broken, or a model that is whole but cannot run here. Another copy of
// the file helps only with the second.
const (
	otherModel     = "take another model: Qwen3 and Llama models run here, with silu, no biases, full attention and RoPE that is plain, linear or llama3"
	otherTokenizer = "take another model: byte-level BPE tokenizers are read, such as those of Qwen3, Llama 3 and SmolLM2"
	fetchAgain     = "fetch the file again, or leave the model out"
)

// label is what a model is called in the findings about several.
func label(name string, names []string) string {
	if name == "" {
		return `""`
	}
	same := 0
	for _, other := range names {
		if other != "" && engines.ShortName(other) == engines.ShortName(name) {
			same++
		}
	}
	if same > 1 {
		return name
	}
	return engines.ShortName(name)
}

// shape reads the shape of a model. Of a folder whose family does not run here,
// the error is that of those who would run it: profiles of measured times know
// more families.
func shape(ctx context.Context, name string) (*modelconfig.Config, error) {
	c, err := engines.Config(name)
	if unsupported(err) && engines.IsFolder(name) {
		w, better := engines.Open(ctx, name)
		if better != nil {
			return nil, better
		}
		w.Close() // nothing is written to it
	}
	return c, err
}

func unsupported(err error) bool {
	var field *modelconfig.FieldError
	return errors.As(err, &field) && field.Unsupported
}

func configFix(err error) string {
	switch {
	case unsupported(err):
		return otherModel
	case errors.Is(err, fs.ErrNotExist):
		return "" // the message says what to give
	}
	return "fetch the model's config.json again"
}

func weightsFix(err error) string {
	switch {
	case unsupported(err):
		return otherModel
	case strings.Contains(err.Error(), "download"):
		return "" // the message says what to do
	}
	return fetchAgain
}

func tokenizerFix(err error) string {
	var file *tokenizer.FileError
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return "put the model's tokenizer.json into the folder"
	case errors.Is(err, tokenizer.ErrUnsupported):
		return otherTokenizer
	case errors.As(err, &file):
		return "fetch the model's " + filepath.Base(file.Path) + " again"
	}
	return "make sure that the folder's files can be read"
}
