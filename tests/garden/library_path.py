# cause: shadowed_library
# library: libsqlite3.so.0
import sqlite3

print(sqlite3.sqlite_version)
