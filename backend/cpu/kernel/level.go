package kernel

import "fmt"

// instructions is an instruction set that the kernels exist for.
type instructions int

const (
	plainGo instructions = iota
	avx2
	avx512
)

var levelNames = [...]string{plainGo: "go", avx2: "avx2", avx512: "avx512"}

// level is the best instruction set of this machine. Only SetLevel changes it.
var level = bestLevel()

// Level names the instruction set in use: "avx512", "avx2" or "go". It changes
// how long a call takes and nothing else.
func Level() string { return levelNames[level] }

// SetLevel makes all later calls use another instruction set: tests compare them
// with it. No other function of the package may run at the same time. It fails
// if the name is unknown or the machine lacks the instructions.
func SetLevel(name string) error {
	for l, known := range levelNames {
		if name != known {
			continue
		}
		if instructions(l) > bestLevel() {
			return fmt.Errorf("kernel: this machine has no %s: use %q at most", name, levelNames[bestLevel()])
		}
		level = instructions(l)
		return nil
	}
	return fmt.Errorf("kernel: no instruction set %q: use one of %q", name, levelNames)
}
