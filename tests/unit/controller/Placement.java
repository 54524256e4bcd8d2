import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.util.ArrayList;
import java.util.Iterator;
import java.util.List;
import java.util.Optional;
import java.util.Random;

import org.apache.kafka.common.Uuid;
import org.apache.kafka.metadata.placement.ClusterDescriber;
import org.apache.kafka.metadata.placement.PlacementSpec;
import org.apache.kafka.metadata.placement.StripedReplicaPlacer;
import org.apache.kafka.metadata.placement.UsableBroker;

/** Kafka's placer. In: "die partitions factor id/rack/fenced,…"; out: "1-2-3 2-3-1 …". */
public class Placement {
    public static void main(String[] args) throws Exception {
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in));
        for (String line; (line = in.readLine()) != null; ) {
            String[] words = line.split(" ");
            int die = Integer.parseInt(words[0]);
            Random random = new Random() {
                @Override
                public int nextInt(int bound) {
                    return die % bound;
                }
            };
            List<UsableBroker> brokers = new ArrayList<>();
            for (String broker : words[3].split(",")) {
                String[] parts = broker.split("/");
                Optional<String> rack = parts[1].equals("-") ? Optional.empty() : Optional.of(parts[1]);
                brokers.add(new UsableBroker(Integer.parseInt(parts[0]), rack, parts[2].equals("1")));
            }
            ClusterDescriber cluster = new ClusterDescriber() {
                public Iterator<UsableBroker> usableBrokers() {
                    return brokers.iterator();
                }

                public Uuid defaultDir(int brokerId) {
                    return Uuid.ZERO_UUID;
                }
            };
            PlacementSpec spec = new PlacementSpec(0, Integer.parseInt(words[1]), Short.parseShort(words[2]));
            StringBuilder out = new StringBuilder();
            new StripedReplicaPlacer(random).place(spec, cluster).assignments().forEach(assignment -> {
                out.append(out.isEmpty() ? "" : " ");
                List<String> replicas = new ArrayList<>();
                assignment.replicas().forEach(replica -> replicas.add(replica.toString()));
                out.append(String.join("-", replicas));
            });
            System.out.println(out);
        }
    }
}
