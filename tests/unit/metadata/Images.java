import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.HexFormat;
import java.util.List;

import org.apache.kafka.common.protocol.ByteBufferAccessor;
import org.apache.kafka.common.protocol.ObjectSerializationCache;
import org.apache.kafka.image.MetadataDelta;
import org.apache.kafka.image.MetadataImage;
import org.apache.kafka.image.MetadataProvenance;
import org.apache.kafka.image.writer.ImageWriterOptions;
import org.apache.kafka.image.writer.RecordListWriter;
import org.apache.kafka.metadata.MetadataRecordSerde;
import org.apache.kafka.server.common.ApiMessageAndVersion;

/** Kafka's images. In: histories, each a line of records in hex; out: the snapshot of each, in the same form. */
public class Images {
    static final MetadataRecordSerde SERDE = MetadataRecordSerde.INSTANCE;

    public static void main(String[] args) throws Exception {
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in));
        for (String line; (line = in.readLine()) != null; ) {
            MetadataImage image = MetadataImage.EMPTY;
            for (String hex : line.split(" ")) {
                // One record at a time: a delta of several may lose a SCRAM credential if it drops another.
                MetadataDelta delta = new MetadataDelta.Builder().setImage(image).build();
                ByteBuffer bytes = ByteBuffer.wrap(HexFormat.of().parseHex(hex));
                delta.replay(SERDE.read(new ByteBufferAccessor(bytes), bytes.remaining()).message());
                image = delta.apply(new MetadataProvenance(1, 1, 1, true));
            }
            RecordListWriter writer = new RecordListWriter();
            image.write(writer, new ImageWriterOptions.Builder(image).build());
            List<String> out = new ArrayList<>();
            writer.records().forEach(record -> out.add(hex(record)));
            System.out.println(String.join(" ", out));
        }
    }

    static String hex(ApiMessageAndVersion record) {
        ObjectSerializationCache cache = new ObjectSerializationCache();
        ByteBufferAccessor out = new ByteBufferAccessor(ByteBuffer.allocate(SERDE.recordSize(record, cache)));
        SERDE.write(record, cache, out);
        return HexFormat.of().formatHex(out.buffer().array());
    }
}
