module github.com/go-llsqlite/adapter

go 1.26.0
