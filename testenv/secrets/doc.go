// Package secrets owns the test that no secret gets out: recognisable ones are planted in real
// processes, which then work, fail and stop, and everything that others could see of them is
// searched: logs, answers, errors, reports, the journal, command lines, files.
//
// It complements TestSecretsStaySecret of package proc, which looks at a unit that works, with what
// happens when things go wrong.
package secrets
