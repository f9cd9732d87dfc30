package api_test

import (
	"strings"
	"testing"

	"tandem.internal/controller/internal/api"
	"tandem.internal/controller/internal/api/apitest"
)

// lacking is a core that leaves one operation out.
type lacking struct{ *apitest.Unit }

func (l lacking) Operations() []api.Operation { return l.Unit.Operations()[1:] }

// doubled is a core that does one operation twice.
type doubled struct{ *apitest.Unit }

func (d doubled) Operations() []api.Operation {
	all := d.Unit.Operations()
	return append(all, all[0])
}

// TestEveryOperationIsBound: an API that does not answer to all of the table is never made.
func TestEveryOperationIsBound(t *testing.T) {
	api.New(apitest.New(apitest.State{}), api.Config{})
	unit := apitest.New(apitest.State{})
	for want, core := range map[string]api.Core{
		"0 things do unit.status": lacking{unit}, "2 things do unit.status": doubled{unit},
	} {
		func() {
			defer func() {
				if why, _ := recover().(string); !strings.Contains(why, want) {
					t.Errorf("%q, want %q", why, want)
				}
			}()
			api.New(core, api.Config{})
		}()
	}
}
