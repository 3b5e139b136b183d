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
			return "", nil, fmt.Errorf("read the experiment: %w\n  fix: %s", err, likelyExperiment(name))
		}
		return name, src, nil
	}
	return "", nil, fmt.Errorf("no experiment is named %q, and it is no .toml file\n  fix: %s", name, likelyExperiment(name))
}

// likelyExperiment says what to give instead of a name or a file that is none.
func likelyExperiment(name string) string {
	if near := nearest.Names(strings.TrimSuffix(filepath.Base(name), extension), Names()); len(near) > 0 {
		return "did you mean " + strings.Join(near, " or ") + "?"
	}
	return "give a .toml file, or one of " + strings.Join(Names(), ", ")
}
