import com.sun.source.util.JavacTask;
import java.io.File;
import java.util.Arrays;
import java.util.stream.Collectors;
import javax.tools.DiagnosticCollector;
import javax.tools.JavaCompiler;
import javax.tools.JavaFileObject;
import javax.tools.StandardJavaFileManager;
import javax.tools.ToolProvider;

/** Reads Java files as far as their syntax goes: what they import need not be there. */
final class Parse {
  public static void main(String[] paths) throws Exception {
    final JavaCompiler compiler = ToolProvider.getSystemJavaCompiler();
    final DiagnosticCollector<JavaFileObject> found = new DiagnosticCollector<>();
    final StandardJavaFileManager files = compiler.getStandardFileManager(found, null, null);
    final Iterable<? extends JavaFileObject> units =
        files.getJavaFileObjectsFromFiles(Arrays.stream(paths).map(File::new).collect(Collectors.toList()));
    ((JavacTask) compiler.getTask(null, files, found, Arrays.asList("--release", "8", "-Xlint:-options"), null, units)).parse();
    found.getDiagnostics().forEach(System.err::println);
    System.exit(found.getDiagnostics().isEmpty() ? 0 : 1);
  }
}
