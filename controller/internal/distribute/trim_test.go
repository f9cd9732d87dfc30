package distribute

import (
	"tandem.internal/controller/internal/retain"
)

// keepFew has the journal keep as little as it may of what nodes say.
func keepFew(c *Config) {
	one := retain.Rule{Records: 1}
	c.KeepRecords, c.Keep = 1, retain.Rules{retain.Reports: one, retain.Events: one, retain.Alerts: one, retain.Issued: one}
}
