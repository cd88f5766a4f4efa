# cause: address_in_use
import socket

first = socket.create_server(("127.0.0.1", 0))
port = first.getsockname()[1]
second = socket.create_server(("127.0.0.1", port))
