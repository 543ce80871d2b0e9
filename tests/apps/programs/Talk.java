import edgec.lm.Conversation;

/** Messages of the command line, answered one after the other; each answer is left after a number of characters. */
final class Talk {
  public static void main(String[] words) {
    try (Conversation talk = new Conversation(2)) {
      talk.sampleBy(0, 1);
      if (!talk.instruct(words[1])) throw new AssertionError("no room");
      if (talk.next() != null) throw new AssertionError("an answer to nothing");
      for (int k = 2; k < words.length; ++k) {
        final StringBuilder answer = new StringBuilder();
        if (!talk.ask(words[k])) answer.append("longer than the context");
        for (String piece = talk.next(); piece != null; piece = talk.next()) {
          answer.append(piece);
          if (answer.codePointCount(0, answer.length()) >= Integer.parseInt(words[0])) talk.interrupt();
        }
        System.out.print(answer + "\0");
      }
      talk.close();
      try {
        talk.ask("?");
        throw new AssertionError("closed, and it answers");
      } catch (IllegalStateException expected) {
        System.out.flush();
      }
    }
  }
}
