package migrate

// UpFS is Up with the migrations of a file system.
var UpFS = up
