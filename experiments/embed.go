package experiments

import (
	"embed"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"

	"github.com/tokenrouter/tokenrouter/internal/nearest"
	"github.com/tokenrouter/tokenrouter/internal/regular"
)

//go:embed *.toml
var carried embed.FS

const extension = ".toml"

// Names lists the experiments that the program carries, sorted.
func Names() []string {
	files, err := fs.Glob(carried, "*"+extension)
	if err != nil {
		panic("experiments: the shipped files cannot be listed: " + err.Error())
	}
	names := make([]string, len(files))
	for i, file := range files {
		names[i] = strings.TrimSuffix(file, extension)
	}
	return names
}

// Source is the text of an experiment: a file, or one that the program
// carries. It returns the name by which errors should call it.
func Source(name string) (file string, src []byte, err error) {
	if src, err := carried.ReadFile(name + extension); err == nil {
		return name + extension, src, nil
	}
	isFile := strings.HasSuffix(name, extension) || strings.ContainsRune(name, filepath.Separator)
	if isFile {
		src, err := regular.ReadFile(name)
		if err != nil {
			return "", nil, fmt.Errorf("read the experiment: %w", err)
		}
		return name, src, nil
	}
	hint := "give a file, or one of " + strings.Join(Names(), ", ")
	if near := nearest.Names(name, Names()); len(near) > 0 {
		hint = "did you mean " + strings.Join(near, " or ") + "?"
	}
	return "", nil, fmt.Errorf("no experiment is named %q, and it is no .toml file\n  fix: %s", name, hint)
}
