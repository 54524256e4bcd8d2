import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.BufferedReader;
import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.InputStream;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.lang.reflect.InvocationTargetException;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import org.apache.kafka.common.utils.Exit;

/**
 * Runs Kafka's command-line tools in one JVM: each line of stdin is a JSON array of {main, args, input}, and becomes a
 * line of stdout, {results: [{stdout, stderr, rc}], stays}. Starting a JVM for each would take most of a test's time.
 * What a tool would do at the end of its own JVM is done before the next one begins: the console producer sends its
 * last records then. It ends by itself once a tool has left threads behind: whatever lives on may write into what later
 * tools print.
 */
public class ToolHost {
    private static final class Exited extends Error {
        private static final long serialVersionUID = 1L;
    }

    private static Integer status;
    private static final List<Runnable> shutdownHooks = new ArrayList<>();

    public static void main(String[] args) throws Exception {
        PrintStream out = System.out;
        Exit.Procedure note = (code, message) -> {
            // A tool may call exit again while it unwinds: the first call is the one a process would end with.
            if (status == null)
                status = code;
            throw new Exited();
        };
        Exit.setShutdownHookAdder((name, hook) -> shutdownHooks.add(hook));
        ObjectMapper mapper = new ObjectMapper();
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            ObjectNode answer = mapper.createObjectNode();
            ArrayNode results = answer.putArray("results");
            for (JsonNode call : mapper.readTree(line)) {
                Exit.setExitProcedure(note);
                results.add(run(mapper, call));
            }
            Exit.resetExitProcedure();
            boolean stays = Thread.getAllStackTraces().keySet().stream()
                .noneMatch(thread -> thread.getName().startsWith("kafka-"));
            answer.put("stays", stays);
            out.write(mapper.writeValueAsBytes(answer));
            out.write('\n');
            out.flush();
            if (!stays)
                break;
        }
        System.exit(0);
    }

    private static ObjectNode run(ObjectMapper mapper, JsonNode call) throws Exception {
        List<String> arguments = new ArrayList<>();
        call.get("args").forEach(argument -> arguments.add(argument.asText()));
        ByteArrayOutputStream stdout = new ByteArrayOutputStream();
        ByteArrayOutputStream stderr = new ByteArrayOutputStream();
        PrintStream realOut = System.out;
        PrintStream realErr = System.err;
        InputStream realIn = System.in;
        status = null;
        System.setOut(new PrintStream(stdout, true, StandardCharsets.UTF_8));
        System.setErr(new PrintStream(stderr, true, StandardCharsets.UTF_8));
        System.setIn(new ByteArrayInputStream(call.path("input").asText("").getBytes(StandardCharsets.UTF_8)));
        try {
            Class.forName(call.get("main").asText())
                .getMethod("main", String[].class)
                .invoke(null, (Object) arguments.toArray(new String[0]));
        } catch (InvocationTargetException e) {
            if (!(e.getCause() instanceof Exited)) {
                e.getCause().printStackTrace();
                if (status == null)
                    status = 1;
            }
        } finally {
            try {
                shutdownHooks.forEach(Runnable::run);
            } catch (RuntimeException | Exited e) {
                e.printStackTrace();
                status = 1;
            }
            shutdownHooks.clear();
            System.out.flush();
            System.err.flush();
            System.setOut(realOut);
            System.setErr(realErr);
            System.setIn(realIn);
        }
        ObjectNode result = mapper.createObjectNode();
        result.put("stdout", stdout.toString(StandardCharsets.UTF_8));
        result.put("stderr", stderr.toString(StandardCharsets.UTF_8));
        result.put("rc", status == null ? 0 : status);
        return result;
    }
}
