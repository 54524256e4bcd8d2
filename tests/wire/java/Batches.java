import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.lang.reflect.Proxy;
import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.HexFormat;
import java.util.List;
import java.util.stream.Collectors;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.compress.Compression;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.header.internals.RecordHeader;
import org.apache.kafka.common.protocol.Errors;
import org.apache.kafka.common.record.TimestampType;
import org.apache.kafka.common.record.internal.CompressionType;
import org.apache.kafka.common.record.internal.MemoryRecords;
import org.apache.kafka.common.record.internal.MemoryRecordsBuilder;
import org.apache.kafka.common.record.internal.Record;
import org.apache.kafka.common.record.internal.RecordBatch;
import org.apache.kafka.common.requests.ProduceRequest;
import org.apache.kafka.common.utils.BufferSupplier;
import org.apache.kafka.common.utils.PrimitiveRef;
import org.apache.kafka.common.utils.Time;
import org.apache.kafka.storage.internals.log.AppendOrigin;
import org.apache.kafka.storage.internals.log.LogValidator;
import org.apache.kafka.storage.internals.log.RecordValidationException;

/**
 * Answers each line of input with one line, by Apache Kafka's own record classes:
 * "read HEX" with the records of all batches, "write CODEC LEVEL RECORD…" with the batch of those records, and
 * "validate COMPACTED APPENDTIME BEFORE AFTER CODEC NOW HEX" with the batch that would be appended at offset 100 in
 * epoch 7, or with the error code and the indexes of the records to blame.
 */
public class Batches {
    private static final HexFormat HEX = HexFormat.of();

    public static void main(String[] args) throws Exception {
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in));
        PrintStream out = new PrintStream(System.out, false, "US-ASCII");
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            String[] words = line.split(" ", -1);
            String answer;
            try {
                answer = switch (words[0]) {
                    case "read" -> read(words[1]);
                    case "write" -> write(words);
                    default -> validate(words);
                };
            } catch (RecordValidationException e) {
                String blamed = e.recordErrors().stream().map(r -> "" + r.batchIndex).collect(Collectors.joining(","));
                answer = "refused " + Errors.forException(e.invalidException()).code() + " " + blamed;
            } catch (RuntimeException | Error e) {
                answer = "refused " + Errors.forException(e).code() + " ";
            }
            out.println(answer);
        }
        out.flush();
    }

    private static String read(String hex) {
        StringBuilder text = new StringBuilder();
        for (RecordBatch batch : records(hex).batches()) {
            batch.ensureValid();
            for (Record record : batch) {
                text.append(text.length() == 0 ? "" : " ").append(record.offset()).append(':').append(record.timestamp());
                text.append(':').append(hex(record.key())).append(':').append(hex(record.value())).append(':');
                List<String> headers = new ArrayList<>();
                for (Header header : record.headers())
                    headers.add(HEX.formatHex(header.key().getBytes(java.nio.charset.StandardCharsets.UTF_8)) + "="
                        + (header.value() == null ? "-" : HEX.formatHex(header.value())));
                text.append(String.join(",", headers));
            }
        }
        return text.toString();
    }

    private static String write(String[] words) {
        MemoryRecordsBuilder builder = MemoryRecords.builder(ByteBuffer.allocate(1024), RecordBatch.MAGIC_VALUE_V2,
            compression(Integer.parseInt(words[1]), words[2]), TimestampType.CREATE_TIME, 0L);
        for (int i = 3; i < words.length; i++) {
            String[] fields = words[i].split(":", -1);
            List<Header> headers = new ArrayList<>();
            for (String header : fields[4].isEmpty() ? new String[0] : fields[4].split(",", -1)) {
                String[] parts = header.split("=", -1);
                String name = new String(HEX.parseHex(parts[0]), java.nio.charset.StandardCharsets.UTF_8);
                headers.add(new RecordHeader(name, bytes(parts[1])));
            }
            builder.append(Long.parseLong(fields[1]), bytes(fields[2]), bytes(fields[3]), headers.toArray(new Header[0]));
        }
        return hex(builder.build().buffer());
    }

    private static String validate(String[] words) {
        MemoryRecords records = records(words[7]);
        ProduceRequest.validateRecords((short) 12, records);
        RecordBatch batch = records.batches().iterator().next();
        batch.ensureValid();
        CompressionType source = CompressionType.forId(batch.compressionType().id);
        int target = words[5].equals("producer") ? source.id : Integer.parseInt(words[5]);
        long now = Long.parseLong(words[6]);
        Time time = (Time) Proxy.newProxyInstance(Batches.class.getClassLoader(), new Class<?>[] {Time.class},
            (proxy, method, arguments) -> now);
        LogValidator validator = new LogValidator(records, new TopicPartition("t", 0), time, source,
            compression(target, ""), words[1].equals("true"), RecordBatch.MAGIC_VALUE_V2,
            words[2].equals("true") ? TimestampType.LOG_APPEND_TIME : TimestampType.CREATE_TIME,
            Long.parseLong(words[3]), Long.parseLong(words[4]), 7, AppendOrigin.CLIENT);
        LogValidator.MetricsRecorder metrics = (LogValidator.MetricsRecorder) Proxy.newProxyInstance(
            Batches.class.getClassLoader(), new Class<?>[] {LogValidator.MetricsRecorder.class}, (p, m, a) -> null);
        LogValidator.ValidationResult result = validator.validateMessagesAndAssignOffsets(
            PrimitiveRef.ofLong(100), metrics, BufferSupplier.NO_CACHING);
        ByteBuffer stored = result.validatedRecords().buffer();
        stored.limit(result.validatedRecords().firstBatch().sizeInBytes()); // the log cuts off what follows
        return hex(stored);
    }

    private static Compression compression(int codec, String level) {
        boolean standard = level.isEmpty();
        return switch (codec) {
            case 0 -> Compression.NONE;
            case 1 -> standard ? Compression.gzip().build() : Compression.gzip().level(Integer.parseInt(level)).build();
            case 2 -> Compression.snappy().build();
            case 3 -> standard ? Compression.lz4().build() : Compression.lz4().level(Integer.parseInt(level)).build();
            default -> standard ? Compression.zstd().build() : Compression.zstd().level(Integer.parseInt(level)).build();
        };
    }

    private static MemoryRecords records(String hex) {
        return MemoryRecords.readableRecords(ByteBuffer.wrap(HEX.parseHex(hex)));
    }

    private static byte[] bytes(String hex) {
        return hex.equals("-") ? null : HEX.parseHex(hex);
    }

    private static String hex(ByteBuffer buffer) {
        if (buffer == null)
            return "-";
        byte[] bytes = new byte[buffer.remaining()];
        buffer.duplicate().get(bytes);
        return HEX.formatHex(bytes);
    }
}
