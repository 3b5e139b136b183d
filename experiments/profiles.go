package experiments

import (
	"fmt"
	"sync"

	"github.com/tokenrouter/tokenrouter/internal/steptime"
)

// StepTime compiles the step times of a model.
func (m *Model) StepTime() (steptime.StepTime, error) {
	if s := m.StepMs; s != nil {
		t, err := steptime.NewLinear(s.Base, s.PerRequest, s.PerRow)
		if err != nil {
			return nil, fmt.Errorf("models.%s: %w", m.Name, err)
		}
		return t, nil
	}
	return compiled(m.Profile)
}

// compiledProfiles keeps what every cell of an experiment needs again.
var compiledProfiles = struct {
	sync.Mutex
	at map[string]steptime.StepTime
}{at: map[string]steptime.StepTime{}}

func compiled(name string) (steptime.StepTime, error) {
	compiledProfiles.Lock()
	defer compiledProfiles.Unlock()
	if t, ok := compiledProfiles.at[name]; ok {
		return t, nil
	}
	p, err := steptime.Load(name)
	if err != nil {
		return nil, err
	}
	compiledProfiles.at[name] = p.Compile()
	return compiledProfiles.at[name], nil
}
