package app

import "tandem.internal/controller/internal/notify/deliver"

// openNotices reads who is told what the journal has. Nothing has been added to the journal since it was opened, so
// that what a restored one has is told from there on.
func (a *App) openNotices(deps Deps) (err error) {
	a.notices, err = deliver.Open(deliver.Config{Dir: a.cfg.StateDir, Unit: a.cfg.Unit, Journal: a.core, Now: deps.Now,
		Steps: deps.Steps})
	return err
}
