package document

import "time"

func componentExtra() extra {
	return extra{
		word: "component", short: "See which versions the components of nodes should have",
		example: "  tandem component status\n  tandem component history\n  tandem component rollback 1.0.3 --as 1.0.5",
		parts:   true, patience: 20 * time.Minute, // each is on trial for a while
		waits: "every online node has it, and its components are installed",
		texts: verbTexts{
			"apply": {
				short: "Make a list of components the one that nodes get their parts of",
				long: `Submit the unit's whole list of components, with the version that each should have. With
--steering desired the list is made by tandem desired apply, and this command is refused.`,
				example: "  tandem component apply list.json",
			},
			"rollback": {
				short:   "Submit the list of an earlier version again, under a higher one",
				example: "  tandem component rollback 1.0.3 --as 1.0.5",
			},
		},
	}
}
