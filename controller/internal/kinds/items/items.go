// Package items has two collections that nodes get nothing of by themselves: the update items of the unit with their
// versions, and the subjects for which they are desired (seed 001). What should run where is made of them.
//
// A version never changes, but for its state, which only goes on. What it consists of is in the store of artefacts, and
// is in use while the version is there.
//
//tandem:pure
package items

import (
	"fmt"

	"tandem.internal/controller/internal/kind"
	"tandem.internal/shared/wire"
)

// Set returns the sources.
func Set() kind.Set {
	return kind.Set{Sources: []*kind.Source{
		{Name: KindItems, Title: "update items", Noun: "item", Fold: itemFold(),
			Artefacts: func(c kind.Content, each func(digest, by string)) { kind.As[Collection](c).artefacts(each) }},
		{Name: KindSubjects, Title: "subjects", Noun: "subject", Fold: subjectFold()},
	}}
}

// refusal returns an error about a part of a change.
func refusal(code wire.Code, path, format string, args ...any) *wire.Error {
	return wire.New(code, path, fmt.Sprintf(format, args...))
}

// under places an error about a part of a change.
func under(path string, err *wire.Error) *wire.Error {
	moved := *err
	moved.Path = path + err.Path
	return &moved
}

// blobAt is where a blob of a release stands; of blob -1 its build.
func blobAt(build, blob int) string {
	if blob < 0 {
		return fmt.Sprintf("/content/builds/%d", build)
	}
	return fmt.Sprintf("/content/builds/%d/blobs/%d", build, blob)
}

// fileAt is where the content of a release has one of the files of a build.
func fileAt(d *Change, build, file int) string {
	if file == len(d.Content.Builds[build].Blobs) {
		return blobAt(build, -1) + "/image"
	}
	return blobAt(build, file)
}
