package experiments

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/tokenrouter/tokenrouter/internal/modelconfig"
	"github.com/tokenrouter/tokenrouter/internal/steptime"
)

// profileFile is how the name of a profile ends that is a file of the user's.
const profileFile = ".toml"

// eagerSuffix names the variant of a shipped profile without CUDA graphs.
const eagerSuffix = "-eager"

// Prices are the step times that a profile or a roofline gives a model, read
// once for all cells of an experiment.
type Prices struct {
	Profile     *steptime.Profile // as it was asked for
	Eager       *steptime.Profile // the same without CUDA graphs; nil: not known
	WeightBytes int64             // of one GPU of the model; 0: not known
	Digest      string            // of the content of files; "" for none

	compiled, compiledEager compiledOnce
}

// compiledOnce keeps what every cell of an experiment needs again.
type compiledOnce struct {
	once sync.Once
	time steptime.StepTime
}

func (c *compiledOnce) get(p *steptime.Profile) steptime.StepTime {
	c.once.Do(func() { c.time = p.Compile() })
	return c.time
}

// variant is the profile for a system with or without CUDA graphs. Without one
// that is eager, it is the one that was asked for.
func (p *Prices) variant(eager bool) (*steptime.Profile, steptime.StepTime) {
	if eager && p.Eager != nil {
		return p.Eager, p.compiledEager.get(p.Eager)
	}
	return p.Profile, p.compiled.get(p.Profile)
}

// StepTime compiles the step times of a model.
func (m *Model) StepTime() (steptime.StepTime, error) { return m.stepTime(false) }

func (m *Model) stepTime(eager bool) (steptime.StepTime, error) {
	if s := m.StepMs; s != nil {
		t, err := steptime.NewLinear(s.Base, s.PerRequest, s.PerRow)
		if err != nil {
			return nil, fmt.Errorf("models.%s: %w", m.Name, err)
		}
		return t, nil
	}
	if m.Prices == nil {
		return nil, &untimedError{m.Name}
	}
	_, t := m.Prices.variant(eager)
	return t, nil
}

// untimedError is about a model that can be run but says nothing of its step
// times.
type untimedError struct{ model string }

func (e *untimedError) Error() string {
	return "how long steps of " + e.model + " take is not known: `tokenrouter validate` measures it, or give it a profile, a roofline or step_ms"
}

// shippedPrices are those of the profiles that come with the program.
var shippedPrices = struct {
	sync.Mutex
	at map[string]*Prices
}{at: map[string]*Prices{}}

func loadShipped(name string) (*Prices, error) {
	shippedPrices.Lock()
	defer shippedPrices.Unlock()
	if p, ok := shippedPrices.at[name]; ok {
		return p, nil
	}
	profile, err := steptime.Load(name)
	if err != nil {
		return nil, err
	}
	p := &Prices{Profile: profile, WeightBytes: knownBytes(profile)}
	if eager := name + eagerSuffix; slices.Contains(steptime.Names(), eager) {
		if p.Eager, err = steptime.Load(eager); err != nil {
			return nil, err
		}
	}
	shippedPrices.at[name] = p
	return p, nil
}

// knownBytes is what the weights take on each GPU, if the profile's model is
// one whose shape is known.
func knownBytes(p *steptime.Profile) int64 {
	if !slices.Contains(modelconfig.Names(), p.Model) {
		return 0
	}
	c, err := modelconfig.Known(p.Model)
	if err != nil {
		panic("experiments: a known model cannot be read: " + err.Error())
	}
	return c.WeightBytes() / int64(p.TP)
}

// pricesOf reads the profile or the roofline of a model, or says what is wrong
// with it; nil for a model with step_ms.
func (f *files) pricesOf(s settings, model string, fail failFunc) *Prices {
	at := "models." + model + "."
	if name := get[string](s, at+"profile"); name != "" {
		return f.profile(at+"profile", name, fail)
	}
	if r := rooflineOf(s, model); r != nil {
		return f.roofline(at+"roofline.", *r, fail)
	}
	return nil
}

// rooflineOf is the roofline table of a model, nil for none.
func rooflineOf(s settings, model string) *steptime.Roofline {
	if !hasTable(s, model, "roofline") {
		return nil
	}
	at := "models." + model + ".roofline."
	return &steptime.Roofline{
		GPU: get[string](s, at+"gpu"), Config: get[string](s, at+"config"), TP: get[int](s, at+"tp"),
		Engine: get[string](s, at+"engine"), Variant: get[string](s, at+"variant"),
	}
}

func (f *files) profile(path, name string, fail failFunc) *Prices {
	full := name
	if strings.HasSuffix(name, profileFile) {
		full = f.full(path, name)
	}
	r := f.once("profile "+full, func() *readFile {
		if !strings.HasSuffix(name, profileFile) {
			p, err := loadShipped(name)
			return &readFile{prices: p, err: err}
		}
		p, err := loadProfileFile(full)
		return &readFile{prices: p, err: err}
	})
	if r.err != nil {
		fail(path, r.hint(), "%v", r.err)
		return nil
	}
	return r.prices
}

func loadProfileFile(name string) (*Prices, error) {
	if err := mustBeFile(name); err != nil {
		return nil, err
	}
	profile, err := steptime.LoadFile(name)
	if err != nil {
		return nil, err
	}
	p := &Prices{Profile: profile, WeightBytes: knownBytes(profile)}
	p.Digest, err = digestOf(profile)
	return p, err
}

func (f *files) roofline(at string, r steptime.Roofline, fail failFunc) *Prices {
	for _, needed := range []struct{ name, value, hint string }{
		{"gpu", r.GPU, "one of " + strings.Join(steptime.GPUs(), ", ")},
		{"config", r.Config, `the name of a model, or the path of a config.json: "` + strings.Join(modelconfig.Names()[:3], `", "`) + `", …`},
	} {
		if needed.value == "" {
			fail(at+needed.name, needed.hint, "is missing")
			return nil
		}
	}
	isPath := strings.ContainsAny(r.Config, `/\`) || strings.HasSuffix(r.Config, ".json")
	if isPath {
		r.Config = f.full(at+"config", r.Config)
	}
	read := f.once(fmt.Sprintf("roofline %+v", r), func() *readFile {
		p, err := loadRoofline(r, isPath)
		return &readFile{prices: p, err: err}
	})
	var field *steptime.RooflineError
	switch {
	case errors.As(read.err, &field):
		fail(at+field.Field, "", "%v", field.Problem)
	case read.err != nil:
		fail(at+"config", read.hint(), "%v", read.err)
	}
	return read.prices
}

func loadRoofline(r steptime.Roofline, isPath bool) (*Prices, error) {
	if isPath {
		file := r.Config
		if info, err := os.Stat(file); err == nil && info.IsDir() {
			file = filepath.Join(file, "config.json")
		}
		if err := mustBeFile(file); err != nil {
			return nil, err
		}
	}
	profile, err := r.Profile()
	if err != nil {
		return nil, err
	}
	p := &Prices{Profile: profile}
	r.Variant = steptime.VariantEager
	if p.Eager, err = r.Profile(); err != nil {
		return nil, err
	}
	c, err := modelconfig.Find(r.Config)
	if err != nil {
		return nil, fmt.Errorf("%s changed while it was read: %w", r.Config, err)
	}
	p.WeightBytes = c.WeightBytes() / int64(profile.TP)
	if isPath {
		p.Digest, err = digestOf(profile, p.Eager)
	}
	return p, err
}

// digestOf names the content of profiles, whatever they are called.
func digestOf(profiles ...*steptime.Profile) (string, error) {
	h := sha256.New()
	for _, p := range profiles {
		anonymous := *p
		if strings.ContainsAny(p.Model, `/\`) {
			anonymous.Model = filepath.Base(p.Model)
		}
		var text bytes.Buffer
		if err := steptime.WriteTOML(&text, &anonymous); err != nil {
			return "", err
		}
		h.Write(text.Bytes())
	}
	return hex.EncodeToString(h.Sum(nil)[:16]), nil
}
