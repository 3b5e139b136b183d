package modelconfig

import (
	"embed"
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/tokenrouter/tokenrouter/internal/nearest"
)

// known holds the fields of the models' published config.json that matter here.
//
//go:embed known/*.json
var known embed.FS

// Names lists the models whose shape is known without a file, sorted.
func Names() []string {
	entries, err := known.ReadDir("known")
	if err != nil {
		panic("modelconfig: the known models cannot be listed: " + err.Error())
	}
	var names []string
	for _, entry := range entries {
		names = append(names, strings.TrimSuffix(entry.Name(), path.Ext(entry.Name())))
	}
	slices.Sort(names)
	return names
}

// Known is the shape of a model that [Names] lists. An unknown name is an error
// that offers the nearest ones.
func Known(name string) (*Config, error) {
	if !slices.Contains(Names(), name) {
		offer := nearest.Names(name, Names())
		if len(offer) == 0 {
			offer = Names()
		}
		return nil, fmt.Errorf("no model is known as %q; did you mean %s? Else give the path of its config.json",
			name, strings.Join(offer, " or "))
	}
	text, err := known.ReadFile("known/" + name + ".json")
	if err != nil {
		return nil, fmt.Errorf("model %s: %w", name, err)
	}
	c, err := Parse("known/"+name+".json", text)
	if err != nil {
		return nil, err
	}
	c.Name = name
	return c, nil
}

// Find takes a known name, or the path of a config.json or of a folder with one:
// whatever holds a slash or ends in .json is a path.
func Find(nameOrPath string) (*Config, error) {
	if strings.ContainsAny(nameOrPath, `/\`) || strings.HasSuffix(nameOrPath, ".json") {
		return Load(nameOrPath)
	}
	return Known(nameOrPath)
}
