package steptime

import (
	"embed"
	"fmt"
	"io/fs"
	"slices"
	"strings"

	"github.com/tokenrouter/tokenrouter/internal/nearest"
)

// The fitted kernels and the profiles are made from the figures of package
// evidence.
//
//go:generate sh -c "go run ./gen kernels > kernels.tmp && mv kernels.tmp kernels_a100.go"
//go:generate go run ./gen profiles profiles

//go:embed profiles
var shipped embed.FS

const (
	folder    = "profiles/"
	extension = ".toml"
)

// Names lists the shipped profiles, sorted, each as "gpu/engine-version/model-tpN", with
// "-eager" at the end for an engine without CUDA graphs.
func Names() []string {
	var names []string
	err := fs.WalkDir(shipped, strings.TrimSuffix(folder, "/"), func(path string, entry fs.DirEntry, err error) error {
		if err == nil && strings.HasSuffix(path, extension) {
			names = append(names, strings.TrimSuffix(strings.TrimPrefix(path, folder), extension))
		}
		return err
	})
	if err != nil {
		panic("steptime: the shipped profiles cannot be listed: " + err.Error())
	}
	slices.Sort(names)
	return names
}

// Load reads a shipped profile by its name. An unknown name is an error that
// offers the nearest ones.
func Load(name string) (*Profile, error) {
	known := Names()
	if !slices.Contains(known, name) {
		offer := nearest.Names(name, known)
		if len(offer) == 0 {
			return nil, fmt.Errorf("no profile is named %q, nor like it; there are %d, named like %s (list profiles shows them)",
				name, len(known), known[0])
		}
		return nil, fmt.Errorf("no profile is named %q; did you mean %s?", name, strings.Join(offer, " or "))
	}
	text, err := shipped.ReadFile(folder + name + extension)
	if err != nil {
		return nil, fmt.Errorf("profile %s: %w", name, err)
	}
	p, err := parse(folder+name+extension, string(text))
	if err != nil {
		return nil, err
	}
	p.Name = name
	return p, nil
}

// Find takes the name of a shipped profile or the path of a profile file: what
// ends in .toml is a path.
func Find(nameOrPath string) (*Profile, error) {
	if strings.HasSuffix(nameOrPath, extension) {
		return LoadFile(nameOrPath)
	}
	return Load(nameOrPath)
}
