# cause: third_party_thread
import third_party_thread_module
import training

third_party_thread_module.init()
training.train(training.model(), training.rows(count=20_000), epochs=100)
