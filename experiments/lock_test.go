package experiments

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"testing"
)

// heldFolder names the folder that a process of this test holds until it is
// killed.
const heldFolder = "EXPERIMENTS_TEST_HELD_FOLDER"

// Two runs at once would write over each other: the second is refused before it
// touches anything, and the first gets its results.
func TestOneRunAFolder(t *testing.T) {
	out := t.TempDir()
	refused := 0
	r, err := Run(t.Context(), load(t, example), Options{Out: out, Workers: 1, Build: "b", Evaluate: func(ctx context.Context, c Cell) Outcome {
		_, err := Run(ctx, load(t, example), Options{Out: out, Evaluate: pretend, Build: "another"})
		var busy *BusyError
		if errors.As(err, &busy) && busy.Folder == out {
			refused++
		} else {
			t.Errorf("a second run gives %v", err)
		}
		return pretend(ctx, c)
	}})
	if err != nil {
		t.Fatal(err)
	}
	if refused == 0 || refused != r.Ran {
		t.Errorf("%d refusals in %d evaluations", refused, r.Ran)
	}
	again, err := Run(t.Context(), load(t, example), Options{Out: out, Evaluate: pretend, Build: "b"})
	if err != nil || again.Ran != 0 {
		t.Errorf("the next run evaluates %+v, %v; want nothing", again, err)
	}
}

// A run that was killed keeps nobody out.
func TestKilledRunKeepsNobodyOut(t *testing.T) {
	if out := os.Getenv(heldFolder); out != "" {
		Run(t.Context(), load(t, example), Options{Out: out, Evaluate: func(context.Context, Cell) Outcome {
			fmt.Println("held")
			select {}
		}})
		return
	}
	out := t.TempDir()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	holder := exec.Command(self, "-test.run=^TestKilledRunKeepsNobodyOut$")
	holder.Env = append(os.Environ(), heldFolder+"="+out)
	said, err := holder.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := holder.Start(); err != nil {
		t.Fatal(err)
	}
	defer holder.Process.Kill()
	if _, err := bufio.NewReader(said).ReadString('\n'); err != nil {
		t.Fatal(err)
	}
	var busy *BusyError
	if _, err := Run(t.Context(), load(t, example), Options{Out: out, Evaluate: pretend}); !errors.As(err, &busy) {
		t.Errorf("beside a run of another process: %v", err)
	}
	if err := holder.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	holder.Wait() // killed
	if _, err := Run(t.Context(), load(t, example), Options{Out: out, Evaluate: pretend}); err != nil {
		t.Errorf("after the other process was killed: %v", err)
	}
}
