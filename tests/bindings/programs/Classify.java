import edgec.digits.Network;
import java.nio.ByteOrder;
import java.nio.ByteBuffer;
import java.nio.file.Files;
import java.nio.file.Paths;

/** Runs digits on the floats of a file and prints what it gives. */
final class Classify {
  public static void main(String[] arguments) throws Exception {
    final ByteBuffer bytes = ByteBuffer.wrap(Files.readAllBytes(Paths.get(arguments[0]))).order(ByteOrder.nativeOrder());
    final Network network = new Network(2);
    network.image.put(bytes.asFloatBuffer());
    final Thread elsewhere = new Thread(network::run);
    elsewhere.start();
    for (int k = 0; k < 100; ++k) network.run();
    elsewhere.join();
    for (int k = 0; k < Network.PROBABILITIES_ELEMENTS; ++k) System.out.println(network.probabilities.get(k));
    network.close();
    network.close();
    try {
      network.run();
      System.exit(1);
    } catch (IllegalStateException closed) {
      System.err.println(closed.getMessage());
    }
  }
}
