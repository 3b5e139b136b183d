package engines

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/tokenrouter/tokenrouter/backend/model"
	"github.com/tokenrouter/tokenrouter/internal/modelconfig"
	"github.com/tokenrouter/tokenrouter/internal/nearest"
)

// How the names begin that are no folder's.
const (
	toyPrefix    = "toy:"
	randomPrefix = "random:"
)

// Toys are the families that have a toy.
var Toys = []string{"qwen3", "llama"}

// benches are shapes made to measure with: weights well beyond the caches of
// most machines, steps in milliseconds, and one vocabulary, so that requests can
// be routed between them. Nobody has trained them.
var benches = []*modelconfig.Config{
	bench("qwen3-58m", 8, 768, 12, 2304),
	bench("qwen3-230m", 12, 1280, 20, 3840),
}

func bench(name string, layers, hidden, heads, intermediate int) *modelconfig.Config {
	return &modelconfig.Config{
		Name: name, Architecture: "Qwen3ForCausalLM", ModelType: "qwen3", Activation: "silu", Dtype: "bfloat16",
		Layers: layers, Hidden: hidden, Heads: heads, KVHeads: 4, HeadDim: 64, Intermediate: intermediate,
		Vocab: 4096, TiedEmbeddings: true, MaxPositions: 32768, RMSNormEps: 1e-6, RopeTheta: 1e6,
	}
}

// Shapes lists the names that random: takes.
func Shapes() []string {
	var names []string
	for _, b := range benches {
		names = append(names, b.Name)
	}
	for _, name := range modelconfig.Names() {
		if c, err := modelconfig.Known(name); err == nil && runs(c) == nil {
			names = append(names, name)
		}
	}
	return names
}

// runs says why the CPU engine cannot run a model; nil if it can.
func runs(c *modelconfig.Config) error {
	if !slices.Contains(Toys, c.ModelType) {
		return &modelconfig.FieldError{File: c.Name, Field: "model_type", Unsupported: true, Problem: fmt.Sprintf(
			"is %q, and the CPU engine runs %s", c.ModelType, strings.Join(Toys, " and "))}
	}
	return nil
}

// Names lists the models that need no folder.
func Names() []string {
	var names []string
	for _, family := range Toys {
		names = append(names, toyPrefix+family)
	}
	for _, shape := range Shapes() {
		names = append(names, randomPrefix+shape)
	}
	return names
}

// Config is the shape of the model of a name: that of a folder, or after toy: or
// random: of a toy or a known shape; random: takes the path of a config.json
// too.
func Config(name string) (*modelconfig.Config, error) {
	c, err := config(name)
	if err == nil {
		err = runs(c)
	}
	if err != nil {
		return nil, err
	}
	return c, nil
}

func config(name string) (*modelconfig.Config, error) {
	if family, ok := strings.CutPrefix(name, toyPrefix); ok {
		if !slices.Contains(Toys, family) {
			return nil, fmt.Errorf("there is no toy %q; use toy:%s", family, strings.Join(Toys, " or toy:"))
		}
		return model.Toy(family), nil
	}
	if shape, ok := strings.CutPrefix(name, randomPrefix); ok {
		return shapeOf(shape)
	}
	if _, err := os.Stat(name); err != nil {
		return nil, fmt.Errorf("%s: %w; give a folder with config.json and *.safetensors, random:NAME or toy:qwen3", name, plain(err))
	}
	return modelconfig.Load(name)
}

func shapeOf(shape string) (*modelconfig.Config, error) {
	for _, b := range benches {
		if b.Name == shape {
			c := *b
			return &c, nil
		}
	}
	if isPath(shape) {
		return modelconfig.Load(shape)
	}
	if slices.Contains(modelconfig.Names(), shape) {
		return modelconfig.Known(shape)
	}
	offer := nearest.Names(shape, Shapes())
	if len(offer) == 0 {
		offer = Shapes()
	}
	return nil, fmt.Errorf("no model is known as %q; did you mean random:%s? Else give random: and the path of its config.json",
		shape, strings.Join(offer, " or random:"))
}

// IsFolder reports whether a name is that of a folder with weights.
func IsFolder(name string) bool {
	return !strings.HasPrefix(name, toyPrefix) && !strings.HasPrefix(name, randomPrefix)
}

// isPath reports whether what follows random: is the path of a config.json, not
// the name of a shape.
func isPath(shape string) bool {
	return strings.ContainsAny(shape, `/\`) || strings.HasSuffix(shape, ".json")
}

// ConfigFile is the path of the file that says what shape the model of a name
// has; "" if the program itself knows it.
func ConfigFile(name string) string {
	if IsFolder(name) {
		return filepath.Join(name, "config.json")
	}
	if path, ok := strings.CutPrefix(name, randomPrefix); ok && isPath(path) {
		return path
	}
	return ""
}

// Below puts what is a path in a name below a folder, unless it is absolute.
func Below(dir, name string) string {
	path, prefix := name, ""
	switch {
	case strings.HasPrefix(name, toyPrefix):
		return name
	case strings.HasPrefix(name, randomPrefix):
		if path, prefix = strings.TrimPrefix(name, randomPrefix), randomPrefix; !isPath(path) {
			return name
		}
	}
	if filepath.IsAbs(path) {
		return name
	}
	return prefix + filepath.Join(dir, path)
}

// plain leaves out the call and the path of a file error: they are said already.
func plain(err error) error {
	var path *os.PathError
	if errors.As(err, &path) {
		return path.Err
	}
	return err
}
