module github.com/anacrolix/go-libutp

go 1.26.0
