import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.ByteBuffer;
import java.util.HexFormat;
import org.apache.kafka.common.protocol.ByteBufferAccessor;
import org.apache.kafka.common.protocol.Message;
import org.apache.kafka.common.protocol.MessageSizeAccumulator;
import org.apache.kafka.common.protocol.ObjectSerializationCache;

/**
 * Answers each line of input with one line, by Apache Kafka's own generated classes:
 * "default NAME VERSION" with the encoding of a new message, "again NAME VERSION HEX" with that of the message read,
 * "across NAME VERSION HEX OTHER" with that of the message read in one version and written in another.
 * An encoding is hex and the number of bytes left unread; "unread" and "unwritten" stand for exceptions.
 */
public class Oracle {
    private static final String[] PLACES = {
        "org.apache.kafka.common.message.%sData",
        "org.apache.kafka.common.message.%s",
        "org.apache.kafka.common.metadata.%s",
        "org.apache.kafka.coordinator.group.generated.%s",
        "org.apache.kafka.coordinator.transaction.generated.%s",
        "org.apache.kafka.server.log.remote.metadata.storage.generated.%s",
    };

    public static void main(String[] args) throws Exception {
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in));
        PrintStream out = new PrintStream(System.out, false, "US-ASCII");
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            String[] words = line.split(" ", -1);
            Message message = make(words[1]);
            short version = Short.parseShort(words[2]);
            short written = words[0].equals("across") ? Short.parseShort(words[4]) : version;
            String answer = "unread";
            try {
                int unread = 0;
                if (!words[0].equals("default")) {
                    ByteBuffer bytes = ByteBuffer.wrap(HexFormat.of().parseHex(words[3]));
                    message.read(new ByteBufferAccessor(bytes), version);
                    unread = bytes.remaining();
                }
                answer = "unwritten";
                answer = HexFormat.of().formatHex(encode(message, written)) + " " + unread;
            } catch (RuntimeException e) {
                // The answer says how far it came.
            }
            out.println(answer);
        }
        out.flush();
    }

    private static byte[] encode(Message message, short version) {
        ObjectSerializationCache cache = new ObjectSerializationCache();
        MessageSizeAccumulator size = new MessageSizeAccumulator();
        message.addSize(size, cache, version);
        ByteBuffer buffer = ByteBuffer.allocate(size.totalSize());
        message.write(new ByteBufferAccessor(buffer), cache, version);
        return java.util.Arrays.copyOf(buffer.array(), buffer.position());
    }

    private static Message make(String name) throws ReflectiveOperationException {
        for (String place : PLACES) {
            try {
                return (Message) Class.forName(String.format(place, name)).getConstructor().newInstance();
            } catch (ClassNotFoundException e) {
                continue;
            }
        }
        throw new ClassNotFoundException(name);
    }
}
