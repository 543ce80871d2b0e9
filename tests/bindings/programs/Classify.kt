import edgec.digits.Net
import java.io.File
import java.nio.ByteBuffer
import java.nio.ByteOrder
import java.util.concurrent.Executors
import kotlin.coroutines.Continuation
import kotlin.coroutines.EmptyCoroutineContext
import kotlin.coroutines.startCoroutine

/** Runs digits on the floats of a file, in this thread and in a coroutine, and prints what it gives. */
fun main(arguments: Array<String>) {
    val bytes = ByteBuffer.wrap(File(arguments[0]).readBytes()).order(ByteOrder.nativeOrder())
    val pixels = FloatArray(64).also { bytes.asFloatBuffer().get(it) }
    val executor = Executors.newSingleThreadExecutor()
    val net = Net(threads = 2)
    net.network.image.position(3)
    val here = net.run(image = pixels)
    val failure = runCatching { net.run(FloatArray(63)) }.exceptionOrNull()
    check(failure is IllegalArgumentException) { "63 elements were taken" }
    System.err.println(failure.message)
    val elsewhere: suspend () -> FloatArray = { net.run(executor, image = pixels) }
    elsewhere.startCoroutine(Continuation(EmptyCoroutineContext) { result ->
        check(result.getOrThrow().contentEquals(here)) { "other results in a coroutine" }
        here.forEach { println(it) }
        net.close()
        check(runCatching { net.run(pixels) }.exceptionOrNull() is IllegalStateException) { "it runs when it is closed" }
        executor.shutdown()
    })
}
