// Package kinds is the list of the kinds of documents that the controller knows. A new kind is a folder
// beside this file, its types in wire, and a line here.
//
//tandem:pure
package kinds

import (
	"tandem.internal/controller/internal/kind"
	"tandem.internal/controller/internal/kinds/components"
	"tandem.internal/controller/internal/kinds/config"
	"tandem.internal/controller/internal/kinds/health"
	"tandem.internal/controller/internal/kinds/info"
	"tandem.internal/controller/internal/kinds/items"
	"tandem.internal/controller/internal/kinds/moves"
	"tandem.internal/controller/internal/kinds/policies"
	"tandem.internal/controller/internal/kinds/wanted"
	"tandem.internal/controller/internal/kinds/workloads"
)

// All returns every kind, in the order in which nodes get their documents.
func All() kind.Set {
	return kind.Join(config.Set(), health.Set(), components.Set(), workloads.Set(), policies.Set(), items.Set(),
		moves.Set(), wanted.Set(), info.Set())
}
