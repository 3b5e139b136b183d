package serving

import (
	"errors"
	"net/http"
	"strings"
	"testing"

	"github.com/tokenrouter/tokenrouter/backend/frontdoor"
	"github.com/tokenrouter/tokenrouter/backend/subserver"
)

// Clients are not told of the hosts behind the door.
func TestALossIsToldWithoutItsInsides(t *testing.T) {
	err := tell(&subserver.EndError{Request: 507, Cause: subserver.ErrFailed, Detail: "large is lost: read tcp 127.0.0.1:7000: connection reset"})
	var told *frontdoor.Error
	if !errors.As(err, &told) || told.Status != http.StatusServiceUnavailable || told.Message == "" {
		t.Fatalf("told %v", err)
	}
	for _, inside := range []string{"127.0.0.1", "507", "tcp"} {
		if strings.Contains(told.Message, inside) {
			t.Errorf("a client is told %q", told.Message)
		}
	}
}
