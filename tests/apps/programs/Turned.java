package edgec.digits.camera;

import edgec.digits.Network;
import java.nio.ByteBuffer;
import java.nio.FloatBuffer;

/** The same picture, held by a camera in four ways, is one picture to the network; prints what that makes of it. */
final class Turned {
  static final int WIDTH = 40, HEIGHT = 32, STRIDE = 4 * WIDTH + 24;

  /** A picture of which the pixel at (x, y) of the square is x + 10 y, upright when turned clockwise by {@code turn}. */
  static ByteBuffer camera(int turn) {
    final ByteBuffer rgba = ByteBuffer.allocateDirect(STRIDE * HEIGHT);
    final int left = (WIDTH - HEIGHT) / 2, last = HEIGHT - 1;
    for (int y = 0; y < HEIGHT; ++y) {
      for (int x = 0; x < HEIGHT; ++x) {
        final int across = turn == 0 ? x : turn == 90 ? y : turn == 180 ? last - x : last - y;
        final int down = turn == 0 ? y : turn == 90 ? last - x : turn == 180 ? last - y : x;
        for (int c = 0; c < 3; ++c) rgba.put(down * STRIDE + 4 * (left + across) + c, (byte) (x + 4 * y));
      }
    }
    return rgba;
  }

  public static void main(String[] none) {
    try (Network network = new Network()) {
      final FloatBuffer upright = FloatBuffer.allocate(64);
      Pixels.fill(camera(0), WIDTH, HEIGHT, STRIDE, 0, upright);
      for (int turn = 0; turn < 360; turn += 90) {
        Pixels.fill(camera(turn), WIDTH, HEIGHT, STRIDE, turn, network.image);
        for (int k = 0; k < 64; ++k) {
          if (Math.abs(network.image.get(k) - upright.get(k)) > 1e-6) System.exit(1);
        }
      }
      // Four by four pixels of the camera to one of the network: the point in their middle.
      if (Math.abs(upright.get(0) - ((1.5f + 4 * 1.5f) - 12) / 48) > 1e-6) System.exit(2);
      network.run();
      for (int k = 0; k < 10; ++k) System.out.println(network.probabilities.get(k));
    }
  }
}
